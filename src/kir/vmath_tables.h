/* Polynomial coefficients, lowest power first. Made by tools/vmath_coeffs.py: do not edit. */
#ifndef TN_VMATH_TABLES_H
#define TN_VMATH_TABLES_H
/* (e^r - 1 - r) / r^2, |r| <= ln2/2, against e^r - 1; error 2^-26.09 */
static const double expm1_p_f32[] = {
    0x1.fffffe0000000p-2,
    0x1.5554b00000000p-3,
    0x1.55570e0000000p-5,
    0x1.1227960000000p-7,
    0x1.6b7bbc0000000p-10};
/* (e^r - 1 - r) / r^2, |r| <= ln2/2, against e^r - 1; error 2^-61.53 */
static const double expm1_p_f64[] = {
    0x1.0000000000000p-1,
    0x1.5555555555559p-3,
    0x1.555555555554ep-5,
    0x1.111111110f655p-7,
    0x1.6c16c16c1a3abp-10,
    0x1.a01a01b0036e4p-13,
    0x1.a01a01905b0c4p-16,
    0x1.71ddf80f5e073p-19,
    0x1.27e50e6c0a6e0p-22,
    0x1.af5f2d0cac539p-26,
    0x1.1f2164d49cda5p-29};
/* (2^r - 1) / r, |r| <= 1/2, against 2^r; error 2^-27.91 */
static const double exp2_p_f32[] = {
    0x1.62e4300000000p-1,
    0x1.ebfbd60000000p-3,
    0x1.c6af760000000p-5,
    0x1.3b32040000000p-7,
    0x1.5f0b7a0000000p-10,
    0x1.3eb87a0000000p-13};
/* (2^r - 1) / r, |r| <= 1/2, against 2^r; error 2^-59.17 */
static const double exp2_p_f64[] = {
    0x1.62e42fefa39efp-1,
    0x1.ebfbdff82c58cp-3,
    0x1.c6b08d704a182p-5,
    0x1.3b2ab6fba568cp-7,
    0x1.5d87fe7888e5ep-10,
    0x1.430912f64e288p-13,
    0x1.ffcbfcdaeb215p-17,
    0x1.62c02a3b7adc4p-20,
    0x1.b52423a513f44p-24,
    0x1.e4b34aceb674cp-28,
    0x1.eafce2acabcf5p-32,
    0x1.e90a61b6a59ecp-36};
/* (log(1+f) - f + f^2/2) / f^3, |f| <= 1/3, against log(1+f); error 2^-30.04 */
static const double log_p_f32[] = {
    0x1.5555560000000p-2,
    -0x1.ffff0e0000000p-3,
    0x1.99980a0000000p-3,
    -0x1.55992c0000000p-3,
    0x1.24e7360000000p-3,
    -0x1.f385f80000000p-4,
    0x1.b985e20000000p-4,
    -0x1.0719a00000000p-3,
    0x1.e83e4e0000000p-4};
/* (2 atanh(s) - 2s) / s^3 in s^2, |s| <= 1/5, against 2 atanh(s); error 2^-66.82 */
static const double log_s_f64[] = {
    0x1.5555555555555p-1,
    0x1.9999999999ba3p-2,
    0x1.249249246d24bp-2,
    0x1.c71c71f28bb39p-3,
    0x1.745d087bdbafap-3,
    0x1.3b16cbb52288bp-3,
    0x1.10a8c1387fdb1p-3,
    0x1.f29d1fafee70bp-4,
    0x1.dc86bf363d5c7p-5,
    0x1.56634231a04c2p-2};
/* (sin r - r) / r^3 in r^2, |r| <= pi/4, against sin r; error 2^-27.88 */
static const double sin_p_f32[] = {
    -0x1.5555460000000p-3,
    0x1.11077a0000000p-7,
    -0x1.9954c20000000p-13};
/* (sin r - r) / r^3 in r^2, |r| <= pi/4, against sin r; error 2^-62.89 */
static const double sin_p_f64[] = {
    -0x1.5555555555555p-3,
    0x1.1111111111089p-7,
    -0x1.a01a01a006646p-13,
    0x1.71de3a3f7c8a4p-19,
    -0x1.ae643c7bd0379p-26,
    0x1.61142c17609fap-33,
    -0x1.a5237f451fa0ap-41};
/* (cos r - 1 + r^2/2) / r^4 in r^2, |r| <= pi/4, against cos r; error 2^-32.99 */
static const double cos_p_f32[] = {
    0x1.55554a0000000p-5,
    -0x1.6c0c2a0000000p-10,
    0x1.99e9020000000p-16};
/* (cos r - 1 + r^2/2) / r^4 in r^2, |r| <= pi/4, against cos r; error 2^-63.88 */
static const double cos_p_f64[] = {
    0x1.555555555554bp-5,
    -0x1.6c16c16c15014p-10,
    0x1.a01a019c8ee43p-16,
    -0x1.27e4f7f13d311p-22,
    0x1.1ee9db7ac6d36p-29,
    -0x1.8fa64b17b8a3ap-37};
/* erf(x)/x - 1 in x^2, |x| <= 1.25 (f64: 1), against erf(x)/x; error 2^-25.13 */
static const double erf_p_f32[] = {
    0x1.06eba40000000p-3,
    -0x1.8126d60000000p-2,
    0x1.ce1dde0000000p-4,
    -0x1.b727600000000p-6,
    0x1.4ecfae0000000p-8,
    -0x1.8505d40000000p-11,
    0x1.03a5d80000000p-14};
/* erf(x)/x - 1 in x^2, |x| <= 1.25 (f64: 1), against erf(x)/x; error 2^-56.34 */
static const double erf_p_f64[] = {
    0x1.06eba8214db69p-3,
    -0x1.812746b0379fdp-2,
    0x1.ce2f21a043610p-4,
    -0x1.b82ce312ab16cp-6,
    0x1.565bcd12704adp-8,
    -0x1.c02db492cd504p-11,
    0x1.f9a33436a642cp-14,
    -0x1.f4d31f4569dffp-17,
    0x1.b9ed89d0866d3p-20,
    -0x1.5f8f1fedce409p-23,
    0x1.fc167c48a36bbp-27,
    -0x1.45479235eb700p-30,
    0x1.263b4556ecf6fp-34};
/* erf(t + 2.59375), 1.25 <= t + 2.59375 <= 3.9375, relative; error 2^-24.63 */
static const double erf_q_f32[] = {
    0x1.ffdffa0000000p-1,
    0x1.6227380000000p-10,
    -0x1.cb6ecc0000000p-9,
    0x1.6fe0920000000p-8,
    -0x1.900a900000000p-8,
    0x1.2fda9c0000000p-8,
    -0x1.3aba0e0000000p-9,
    0x1.6f1eda0000000p-11,
    0x1.739bf80000000p-14,
    -0x1.b946140000000p-13,
    0x1.325ab40000000p-14,
    0x1.5c0c600000000p-17,
    -0x1.10eaec0000000p-17};
/* (1 + 2x) e^(x^2) erfc(x) in t = (x-2.0)/(x+2.0), 0.5 <= x <= 10.1, relative; error 2^-26.66 */
static const double erfc_p_f32[] = {
    0x1.46e80e0000000p+0,
    -0x1.7bf5da0000000p-4,
    -0x1.5407c20000000p-3,
    0x1.4ff8a80000000p-3,
    -0x1.bc21740000000p-5,
    -0x1.063bf20000000p-7,
    0x1.1c35340000000p-7,
    0x1.295c260000000p-10,
    -0x1.5043ec0000000p-10,
    -0x1.b68adc0000000p-13};
/* (1 + 2x) e^(x^2) erfc(x) in t = (x-3.0)/(x+3.0), 0.5 <= x <= 27.5, relative; error 2^-54.61 */
static const double erfc_p_f64[] = {
    0x1.40c522d7e4987p+0,
    -0x1.15c084bb9e8f7p-3,
    -0x1.85a15c58aa211p-5,
    0x1.098366a5b48dfp-3,
    -0x1.e88b803a4e5f5p-4,
    0x1.17ca2877e68e3p-4,
    -0x1.8574c40a241cdp-6,
    0x1.4b884e5c155f8p-9,
    0x1.ef1bdc12a329ep-10,
    -0x1.98db54d8975a0p-11,
    -0x1.b911e9526d826p-14,
    0x1.065a9268d2d65p-13,
    0x1.4bfbc3fb185c9p-18,
    -0x1.5146179daa999p-16,
    -0x1.84481f635277ep-21,
    0x1.d2d406be50d03p-19,
    0x1.6be31defc747ep-22,
    -0x1.4f295ff7c7885p-21,
    -0x1.f49d1a8aa442dp-24,
    0x1.caa034321538ap-24,
    0x1.691bcd4e3f00dp-26,
    -0x1.d04bb00fac0f5p-27};
/* (asin x - x) / x^3 in x^2, |x| <= 1/2, against asin x; error 2^-27.61 */
static const double asin_p_f32[] = {
    0x1.5555c80000000p-3,
    0x1.33020e0000000p-4,
    0x1.747a5e0000000p-5,
    0x1.8c4d400000000p-6,
    0x1.594f160000000p-5};
/* (asin x - x) / x^3 in x^2, |x| <= 1/2, against asin x; error 2^-55.89 */
static const double asin_p_f64[] = {
    0x1.5555555555394p-3,
    0x1.333333336e104p-4,
    0x1.6db6db42bd7f4p-5,
    0x1.f1c72c24eaea6p-6,
    0x1.6e89f601c984ep-6,
    0x1.1c6bc8ad01ad0p-6,
    0x1.c6ff9652fe36ap-7,
    0x1.8eb77f3ccd62dp-7,
    0x1.ac2edc466a4ddp-8,
    0x1.3fb59cddc85b1p-6,
    -0x1.0973581aa8cb5p-6,
    0x1.054d87ce957b8p-5};
/* (atan x - x) / x^3 in x^2, |x| <= tan(pi/8), against atan x; error 2^-25.52 */
static const double atan_p_f32[] = {
    -0x1.5554520000000p-2,
    0x1.9924620000000p-3,
    -0x1.1c338c0000000p-3,
    0x1.49cb980000000p-4};
/* (atan x - x) / x^3 in x^2, |x| <= tan(pi/8), against atan x; error 2^-63.77 */
static const double atan_p_f64[] = {
    -0x1.5555555555554p-2,
    0x1.99999999995bbp-3,
    -0x1.2492492471ee4p-3,
    0x1.c71c71b5df3a5p-4,
    -0x1.745d148da7f34p-4,
    0x1.3b136abf75858p-4,
    -0x1.110c455f467adp-4,
    0x1.e16ed75405110p-5,
    -0x1.ab6ad26397e2ap-5,
    0x1.70a6e6bdb788ap-5,
    -0x1.119ed3a6e2583p-5,
    0x1.efa1686420d44p-7};
/* (tanh x - x) / x^3 in x^2, |x| <= 0.3, against tanh x; error 2^-26.28 */
static const double tanh_p_f32[] = {
    -0x1.55549e0000000p-2,
    0x1.10aff00000000p-3,
    -0x1.9c94d60000000p-5};
/* (tanh x - x) / x^3 in x^2, |x| <= 0.3, against tanh x; error 2^-65.65 */
static const double tanh_p_f64[] = {
    -0x1.5555555555555p-2,
    0x1.1111111111029p-3,
    -0x1.ba1ba1b9fe343p-5,
    0x1.664f48736f741p-6,
    -0x1.226e30b8ee6f0p-7,
    0x1.d6d213a5c6b08p-9,
    -0x1.7d6f256627934p-10,
    0x1.31953e897c80bp-11,
    -0x1.a6c29d82ba552p-13,
    0x1.b796cd10d3f34p-18};
/* (sinh x - x) / x^3 in x^2, |x| <= 1, against sinh x; error 2^-25.32 */
static const double sinh_p_f32[] = {
    0x1.5555980000000p-3,
    0x1.10f76c0000000p-7,
    0x1.ab3ea80000000p-13};
/* (sinh x - x) / x^3 in x^2, |x| <= 1, against sinh x; error 2^-61.53 */
static const double sinh_p_f64[] = {
    0x1.5555555555556p-3,
    0x1.111111111103fp-7,
    0x1.a01a01a031b33p-13,
    0x1.71de3a4035913p-19,
    0x1.ae646b6838537p-26,
    0x1.6118d4fadd5a5p-33,
    0x1.b531e038afc99p-41};
/* 2/pi: 32 zero bits, then its fraction, 32 bits a word */
static const uint32_t two_over_pi[38] = {
    0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab,
    0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5,
    0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff,
    0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7,
    0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046};
#endif
