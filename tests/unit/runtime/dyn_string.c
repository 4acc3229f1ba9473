/* String operators. Values are Python's and NumPy's (split, re.fullmatch, str of floats), or by hand. */
#include "dyn_test.h"

static void constants(void **state) {
  (void)state;
  call c = {0};
  a_strs(&c, "values", STRS("x", "", "yz", "w"), 4);
  a_ints(&c, "dims", DIMS(2, 2), 2);
  ok(&c, tn_dyn_STRINGS);
  strings_are(c.out[0], 2, DIMS(2, 2), STRS("x", "", "yz", "w"));
  survives_nomem(&c, tn_dyn_STRINGS);
  c.attr[1].u.i = DIMS(INT64_MAX, 4);
  assert_int_equal(run(&c, tn_dyn_STRINGS), TN_E_ARG);
  c.attr[1].u.i = DIMS(2, 3);
  assert_int_equal(run(&c, tn_dyn_STRINGS), TN_E_ARG);
  finish(&c);
}

static void taken(void **state) {
  (void)state;
  call c = {0};
  put(&c, tensor(TN_I64, 2, DIMS(1, 3), I64(2, 0, 3)));
  put(&c, strings(1, DIMS(2), STRS("a", "b")));
  put(&c, strings(1, DIMS(0), NULL));
  put(&c, strings(1, DIMS(2), STRS("c", "d")));
  ok(&c, tn_dyn_STRING_TAKE);
  strings_are(c.out[0], 2, DIMS(1, 3), STRS("c", "a", "d"));
  survives_nomem(&c, tn_dyn_STRING_TAKE);
  for (int64_t bad = -1; bad <= 4; bad += 5) {
    tn_value_release(c.in[0]);
    c.in[0] = i64(bad);
    assert_int_equal(run(&c, tn_dyn_STRING_TAKE), TN_E_INDEX);
  }
  finish(&c);
}

static void pairs(void **state) {
  (void)state;
  call c = {0};
  put(&c, strings(1, DIMS(3), STRS("a", "", "\xe7\x9a\x84")));
  put(&c, strings(1, DIMS(3), STRS("a", "b", "\xe7\x9a\x84")));
  ok(&c, tn_dyn_STRING_EQUAL);
  ints_are(c.out[0], 1, DIMS(3), I64(1, 0, 1));
  ok(&c, tn_dyn_STRING_CONCAT);
  strings_are(c.out[0], 1, DIMS(3), STRS("aa", "b", "\xe7\x9a\x84\xe7\x9a\x84"));
  survives_nomem(&c, tn_dyn_STRING_CONCAT);
  tn_value_release(c.in[1]);
  c.in[1] = strings(1, DIMS(1), STRS("a"));
  assert_int_equal(run(&c, tn_dyn_STRING_EQUAL), TN_E_ARG);
  tn_value_release(c.in[1]);
  c.in[1] = i64(1);
  assert_int_equal(run(&c, tn_dyn_STRING_EQUAL), TN_E_ARG);
  finish(&c);
}

typedef struct split_case { const char *s, *delimiter; int64_t most, n; const char *piece[6]; } split_case;

static void splits(void **state) {
  (void)state;
  static const split_case cases[] = {
      {"a b  c ", "", -1, 3, {"a", "b", "c"}},  {"  a b c  ", "", 1, 2, {"a", "b c  "}}, {"  a b ", "", 0, 1, {"a b "}}, {"   ", "", -1, 0, {0}},
      {"", "", -1, 0, {0}},                     {"", "-", -1, 1, {""}},                  {"o-n--x-", "-", -1, 5, {"o", "n", "", "x", ""}},
      {"a-b-c", "-", 1, 2, {"a", "b-c"}},       {"abcabc", "bc", -1, 3, {"a", "a", ""}}, {"a", "abc", -1, 1, {"a"}},     {"a\xc2\xa0" "b\xe3\x80\x80", "", -1, 2, {"a", "b"}},
      {"a  ", "", 1, 1, {"a"}},                 {"a-b", "-", 0, 1, {"a-b"}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    call c = {0};
    const split_case *k = &cases[i];
    put(&c, strings(1, DIMS(1), &k->s));
    a_str(&c, "delimiter", k->delimiter);
    if (k->most >= 0) a_int(&c, "maxsplit", k->most);
    ok(&c, tn_dyn_STRING_SPLIT);
    ints_are(c.out[1], 1, DIMS(1), &k->n);
    strings_are(c.out[0], 2, DIMS(1, k->n), k->piece);
    finish(&c);
  }
  call c = {0};
  put(&c, strings(2, DIMS(2, 1), STRS("a b c", "d")));
  ok(&c, tn_dyn_STRING_SPLIT);
  strings_are(c.out[0], 3, DIMS(2, 1, 3), STRS("a", "b", "c", "d", "", ""));
  ints_are(c.out[1], 2, DIMS(2, 1), I64(3, 1));
  survives_nomem(&c, tn_dyn_STRING_SPLIT);
  finish(&c);
  put(&c, strings(1, DIMS(0), NULL));
  ok(&c, tn_dyn_STRING_SPLIT);
  strings_are(c.out[0], 2, DIMS(0, 0), NULL);
  finish(&c);
}

static void normalized(void **state) {
  (void)state;
  call c = {0};
  put(&c, strings(1, DIMS(4), STRS("Monday", "tuesday", "monday", "\xc3\x89t\xc3\xa9")));
  a_strs(&c, "stopwords", STRS("monday"), 1);
  a_str(&c, "case", "UPPER");
  a_int(&c, "is_case_sensitive", 1);
  ok(&c, tn_dyn_STRING_NORMALIZER);
  strings_are(c.out[0], 1, DIMS(3), STRS("MONDAY", "TUESDAY", "\xc3\x89T\xc3\x89"));
  c.one[2] = 0;
  ok(&c, tn_dyn_STRING_NORMALIZER);
  strings_are(c.out[0], 1, DIMS(2), STRS("TUESDAY", "\xc3\x89T\xc3\x89"));
  c.str[1] = (tn_mstr){"LOWER", 5};
  ok(&c, tn_dyn_STRING_NORMALIZER);
  strings_are(c.out[0], 1, DIMS(2), STRS("tuesday", "\xc3\xa9t\xc3\xa9"));
  survives_nomem(&c, tn_dyn_STRING_NORMALIZER);
  tn_value_release(c.in[0]);
  c.in[0] = strings(2, DIMS(1, 2), STRS("monday", "MONDAY"));
  ok(&c, tn_dyn_STRING_NORMALIZER);
  strings_are(c.out[0], 2, DIMS(1, 1), STRS(""));
  tn_value_release(c.in[0]);
  c.in[0] = strings(2, DIMS(2, 1), STRS("monday", "MONDAY"));
  assert_int_equal(run(&c, tn_dyn_STRING_NORMALIZER), TN_E_ARG);
  finish(&c);
}

static void texts(void **state) {
  (void)state;
  call c = {0};
  put(&c, tensor(TN_F32, 1, DIMS(13), F32(0.1f, 1, 1e16f, 123456.789f, 9.9e-5f, 3.4028235e38f, 1e-45f, -0.0f, -2.5f, INFINITY, -INFINITY, NAN, 0.001f)));
  ok(&c, tn_dyn_TO_STRING);
  strings_are(c.out[0], 1, DIMS(13), STRS("0.1", "1.0", "1e+16", "123456.79", "9.9e-05", "3.4028235e+38", "1e-45", "-0.0", "-2.5", "inf", "-inf", "nan", "0.001"));
  survives_nomem(&c, tn_dyn_TO_STRING);
  finish(&c);
  put(&c, tensor(TN_F64, 0, NULL, F64(1.0 / 3)));
  ok(&c, tn_dyn_TO_STRING);
  strings_are(c.out[0], 0, NULL, STRS("0.3333333333333333"));
  finish(&c);
  put(&c, tensor(TN_F16, 1, DIMS(2), "\x66\x2e\xff\x7b"));           /* 0x2e66 = 0.1, 0x7bff = 65504 */
  ok(&c, tn_dyn_TO_STRING);
  strings_are(c.out[0], 1, DIMS(2), STRS("0.1", "65500.0"));
  finish(&c);
  put(&c, tensor(TN_BOOL, 1, DIMS(2), "\0\1"));
  ok(&c, tn_dyn_TO_STRING);
  strings_are(c.out[0], 1, DIMS(2), STRS("False", "True"));
  finish(&c);
  put(&c, tensor(TN_I64, 1, DIMS(2), I64(INT64_MIN, 42)));
  ok(&c, tn_dyn_TO_STRING);
  strings_are(c.out[0], 1, DIMS(2), STRS("-9223372036854775808", "42"));
  finish(&c);
  put(&c, tensor(TN_U64, 0, NULL, (uint64_t[]){UINT64_MAX}));
  ok(&c, tn_dyn_TO_STRING);
  strings_are(c.out[0], 0, NULL, STRS("18446744073709551615"));
  finish(&c);
}

static void numbers(void **state) {
  (void)state;
  call c = {0};
  put(&c, strings(1, DIMS(7), STRS("3.14", "1e-5", " 1E8 ", "+INF", "-inf", "NaN", "16777217")));
  a_int(&c, "elem", TN_EL_F32);
  ok(&c, tn_dyn_FROM_STRING);
  shape_is(c.out[0], 1, DIMS(7));
  const float *f = c.out[0]->t.data;
  assert_true(f[0] == 3.14f && f[1] == 1e-5f && f[2] == 1e8f && isinf(f[3]) && isinf(f[4]) && f[4] < 0 && isnan(f[5]) && f[6] == 16777216.0f);
  finish(&c);
  put(&c, strings(1, DIMS(4), STRS("100.5", "-7", "9223372036854775807", "2e3")));
  a_int(&c, "elem", TN_EL_I64);
  ok(&c, tn_dyn_FROM_STRING);
  ints_are(c.out[0], 1, DIMS(4), I64(100, -7, INT64_MAX, 2000));
  survives_nomem(&c, tn_dyn_FROM_STRING);
  static const char *const bad[] = {"Hello", "", "1 2", "1.5x"};
  for (int i = 0; i < 4; i++) {
    tn_value_release(c.in[0]);
    c.in[0] = strings(0, NULL, &bad[i]);
    assert_int_equal(run(&c, tn_dyn_FROM_STRING), TN_E_ARG);
  }
  c.one[0] = TN_EL_I8;
  assert_int_equal(run(&c, tn_dyn_FROM_STRING), TN_E_UNSUPPORTED);
  finish(&c);
}

/* ---- regular expressions: pattern, texts, whether Python's re.fullmatch takes each (RE2 where they differ: (?i) in the middle, $ before \n) ---- */

typedef struct regex_case { const char *pattern, *text[6]; int64_t want[6]; } regex_case;
static const regex_case regexes[] = {
    {"www\\.[\\w.-]+\\.\\bcom\\b", {"www.google.com", "www.facebook.com", "www.bbc.co.uk"}, {1, 1, 0}},
    {"^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\\.[A-Za-z]{2,}$", {"a@b.com", "a@b", "a.b+c@d-e.org", "@b.com"}, {1, 0, 1, 0}},
    {"", {"", "a"}, {1, 0}},
    {"a|b|cd*", {"a", "b", "c", "cddd", "ab"}, {1, 1, 1, 1, 0}},
    {"(a*)*b", {"b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}, {1, 1, 0}},
    {"(?:ab){2,3}?", {"ab", "abab", "ababab", "abababab"}, {0, 1, 1, 0}},
    {"x{2}y{0,1}z{1,}", {"xxz", "xxyzz", "xz", "xxyyz"}, {1, 1, 0, 0}},
    {"a{,2}", {"a{,2}", "aa"}, {1, 0}},
    {"(?i)stra\xc3\x9f" "e|\xc3\xa9", {"STRA\xc3\x9f" "E", "\xc3\x89", "e"}, {1, 1, 0}},
    {"(?i:a)b", {"Ab", "AB"}, {1, 0}},
    {".", {"\xe7\x9a\x84", "ab", "\n", "x"}, {1, 0, 0, 1}},
    {"(?s).+", {"a\nb", ""}, {1, 0}},
    {"(?m)^a$\\n^b$", {"a\nb", "ab"}, {1, 0}},
    {"[^\\d\\s]+", {"abc", "a1", "a b", "\xe7\x9a\x84"}, {1, 0, 0, 1}},
    {"[]a-]+", {"]-a", "b"}, {1, 0}},
    {"[[:alpha:]_][[:^space:]]*", {"_1!", "1a", "a b"}, {1, 0, 0}},
    {"\\x41\\x{1F600}\\101\\t", {"A\xf0\x9f\x98\x80" "A\t", "AA"}, {1, 0}},
    {"\\Qa.b*\\Ec", {"a.b*c", "axbc"}, {1, 0}},
    {"(?P<year>\\d{4})-(\\d\\d)", {"2024-01", "24-01"}, {1, 0}},
    {"\\Aa\\z", {"a", "b"}, {1, 0}},
    {"a\\Bb\\b", {"ab", "a"}, {1, 0}},
    {"[\xce\xb1-\xcf\x89]+", {"\xce\xbb\xce\xbf\xce\xb3\xce\xbf\xcf\x82", "\xce\xbb\xcf\x8c\xce\xb3q"}, {1, 0}},
};

static void full_match(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof regexes / sizeof *regexes; i++) {
    const regex_case *k = &regexes[i];
    int64_t n = 0;
    while (n < 6 && k->text[n]) n++;
    call c = {0};
    put(&c, strings(1, &n, k->text));
    a_str(&c, "pattern", k->pattern);
    ok(&c, tn_dyn_REGEX_FULL_MATCH);
    for (int64_t j = 0; j < n; j++)
      if (tn_value_int(c.out[0], j) != k->want[j]) fail_msg("%s on %s", k->pattern, k->text[j]);
    survives_nomem(&c, tn_dyn_REGEX_FULL_MATCH);
    finish(&c);
  }
}

static void refused(void **state) {
  (void)state;
  static const struct { const char *pattern; tn_status st; } bad[] = {
      {"(", TN_E_ARG},      {")", TN_E_ARG},         {"[a", TN_E_ARG},       {"a**", TN_E_ARG},    {"*", TN_E_ARG},          {"a{1001}", TN_E_ARG},   {"a{3,2}", TN_E_ARG},
      {"[b-a]", TN_E_ARG},  {"\\", TN_E_ARG},        {"\\y", TN_E_ARG},      {"(?=a)", TN_E_ARG},  {"(?<=a)", TN_E_ARG},     {"\\1", TN_E_ARG},       {"\\x{110000}", TN_E_ARG},
      {"[[:foo:]]", TN_E_ARG}, {"\\pL", TN_E_UNSUPPORTED}, {"(?P<n", TN_E_ARG}, {"((a{1000}){1000}){1000}", TN_E_UNSUPPORTED}, {"((((){1000}){1000}){1000}){1000}", TN_E_UNSUPPORTED}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    call c = {0};
    put(&c, strings(1, DIMS(1), STRS("a")));
    a_str(&c, "pattern", bad[i].pattern);
    if (run(&c, tn_dyn_REGEX_FULL_MATCH) != bad[i].st) fail_msg("%s: %s", bad[i].pattern, c.d.text);
    finish(&c);
  }
  char deep[5000];
  memset(deep, '(', sizeof deep - 1);
  deep[sizeof deep - 1] = 0;
  call c = {0};
  put(&c, strings(1, DIMS(1), STRS("a")));
  a_str(&c, "pattern", deep);
  assert_int_equal(run(&c, tn_dyn_REGEX_FULL_MATCH), TN_E_UNSUPPORTED);
  finish(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(constants), cmocka_unit_test(taken),   cmocka_unit_test(pairs),      cmocka_unit_test(splits), cmocka_unit_test(normalized),
                                     cmocka_unit_test(texts),     cmocka_unit_test(numbers), cmocka_unit_test(full_match), cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
