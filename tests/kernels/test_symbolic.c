/* Whole graphs with symbolic sizes, compiled once and run at sizes 0, 1, 2, 7 and 64: every result must be what the reference
 * evaluator makes of the graph as it was written. torch never calls a symbolic graph with 0 or 1, a model with dynamic axes does,
 * and one rewrite that takes "s0 rows" for "some rows" is a wrong answer there. Where the evaluator refuses the sizes (a window
 * larger than what it slides over), the program must refuse them too. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "ops/ops.h"
#include "tenon/compile.h"
#include "tenon/run.h"

typedef struct row {
  const char *name, *text; /* text: inputs, results and statements of a graph */
} row;

#define G(in, out, body) "graph @g(" in ") -> (" out ") {\n" body "\n}\n"
#define SUM(x, y, t, d) "  %" y ": " t " = reduce %" x " {combiner=\"sum\", dims=[" d "], keepdim=false}\n"

static const row rows[] = {
    {"pointwise", G("%x: f32[s0,s1] input, %y: f32[s1] input, %z: f32[s0,1] input", "f32[s0,s1]",
                    "  %a: f32[s0,s1] = add %x, %y\n  %b: f32[s0,s1] = mul %a, %z\n  %c: f32[s0,s1] = tanh %b\n  return %c")},
    {"scalar operand", G("%x: f32[s0] input, %y: f32[] input", "f32[s0]", "  %a: f32[s0] = sub %x, %y\n  return %a")},
    {"turned", G("%x: f32[s0,s1] input, %y: f32[s1,s0] input", "f32[s0,s1]",
                 "  %p: f32[s0,s1] = permute %y {perm=[1, 0]}\n  %a: f32[s0,s1] = add %x, %p\n  return %a")},
    {"transpose", G("%x: f32[s0,3,s1] input", "f32[s1,3,s0]", "  %p: f32[s1,3,s0] = permute %x {perm=[2, 1, 0]}\n  return %p")},
    {"broadcast", G("%x: f32[s0,1] input", "f32[s0,s0]", "  %b: f32[s0,s0] = broadcast %x {shape=[s0, s0]}\n  %c: f32[s0,s0] = neg %b\n  return %c")},
    {"sums", G("%x: f32[s0,s1] input", "f32[s0], f32[s1], f32[]",
               SUM("x", "a", "f32[s0]", "1") SUM("x", "b", "f32[s1]", "0") SUM("x", "c", "f32[]", "0, 1") "  return %a, %b, %c")},
    {"sum of a product", G("%x: f32[s0,5,s1] input, %y: f32[5,s1] input", "f32[s0,5]",
                           "  %m: f32[s0,5,s1] = mul %x, %y\n" SUM("m", "a", "f32[s0,5]", "2") "  return %a")},
    {"extremes", G("%x: f32[s0,s1] input", "f32[s0], f32[s1], f32[1,1], f32[s0]",
                   "  %a: f32[s0] = reduce %x {combiner=\"max\", dims=[1], keepdim=false}\n"
                   "  %b: f32[s1] = reduce %x {combiner=\"min\", dims=[0], keepdim=false}\n"
                   "  %c: f32[1,1] = reduce %x {combiner=\"max\", dims=[0, 1], keepdim=true}\n"
                   "  %d: f32[s0] = reduce %x {combiner=\"prod\", dims=[1], keepdim=false}\n  return %a, %b, %c, %d")},
    {"integers", G("%x: i32[s0,s1] input, %u: u64[s0,s1] input", "i32[s0], u64[s1], i64[s0]",
                   "  %a: i32[s0] = reduce %x {combiner=\"min\", dims=[1], keepdim=false}\n"
                   "  %b: u64[s1] = reduce %u {combiner=\"max\", dims=[0], keepdim=false}\n"
                   "  %c: i64[s0,s1] = cast %x {dtype=i64}\n"
                   "  %d: i64[s0] = reduce %c {combiner=\"sum\", dims=[1], keepdim=false}\n  return %a, %b, %d")},
    {"logic", G("%x: f32[s0,s1] input", "bool[s0], bool[s1]",
                "  %z: f32[] = full {shape=[], value=1.5, dtype=f32}\n  %c: bool[s0,s1] = gt %x, %z\n"
                "  %a: bool[s0] = reduce %c {combiner=\"any\", dims=[1], keepdim=false}\n"
                "  %b: bool[s1] = reduce %c {combiner=\"all\", dims=[0], keepdim=false}\n  return %a, %b")},
    {"mean", G("%x: f32[s0,s1] input", "f32[s0], f32[]",
               SUM("x", "a", "f32[s0]", "1") "  %n: f32[] = full {shape=[], value=s1, dtype=f32}\n  %m: f32[s0] = div %a, %n\n" SUM("x", "b", "f32[]", "0, 1")
               "  %k: f32[] = full {shape=[], value=s0*s1, dtype=f32}\n  %o: f32[] = div %b, %k\n  return %m, %o")},
    {"softmax", G("%x: f32[s0,s1] input", "f32[s0,s1]",
                  "  %m: f32[s0,1] = reduce %x {combiner=\"max\", dims=[1], keepdim=true}\n  %d: f32[s0,s1] = sub %x, %m\n  %e: f32[s0,s1] = exp %d\n"
                  "  %s: f32[s0,1] = reduce %e {combiner=\"sum\", dims=[1], keepdim=true}\n  %y: f32[s0,s1] = div %e, %s\n  return %y")},
    {"softmax of columns", G("%x: f32[3,s0,s1] input", "f32[3,s0,s1]",
                             "  %m: f32[3,1,s1] = reduce %x {combiner=\"max\", dims=[1], keepdim=true}\n  %d: f32[3,s0,s1] = sub %x, %m\n  %e: f32[3,s0,s1] = exp %d\n"
                             "  %s: f32[3,1,s1] = reduce %e {combiner=\"sum\", dims=[1], keepdim=true}\n  %y: f32[3,s0,s1] = div %e, %s\n  return %y")},
    {"layer norm", G("%x: f32[s0,s1,8] input, %w: f32[8] param, %b: f32[8] param", "f32[s0,s1,8]",
                     "  %s: f32[s0,s1,1] = reduce %x {combiner=\"sum\", dims=[2], keepdim=true}\n  %n: f32[] = full {shape=[], value=8.0, dtype=f32}\n"
                     "  %m: f32[s0,s1,1] = div %s, %n\n  %d: f32[s0,s1,8] = sub %x, %m\n  %q: f32[s0,s1,8] = mul %d, %d\n"
                     "  %v: f32[s0,s1,1] = reduce %q {combiner=\"sum\", dims=[2], keepdim=true}\n  %k: f32[s0,s1,1] = div %v, %n\n"
                     "  %e: f32[] = full {shape=[], value=0.001, dtype=f32}\n  %ke: f32[s0,s1,1] = add %k, %e\n  %r: f32[s0,s1,1] = rsqrt %ke\n"
                     "  %y: f32[s0,s1,8] = mul %d, %r\n  %z: f32[s0,s1,8] = mul %y, %w\n  %o: f32[s0,s1,8] = add %z, %b\n  return %o")},
    {"norm over a symbol", G("%x: f32[s0,s1] input", "f32[s0,s1]",
                             "  %q: f32[s0,s1] = mul %x, %x\n  %s: f32[s0,1] = reduce %q {combiner=\"sum\", dims=[1], keepdim=true}\n"
                             "  %e: f32[] = full {shape=[], value=0.5, dtype=f32}\n  %t: f32[s0,1] = add %s, %e\n  %r: f32[s0,1] = rsqrt %t\n"
                             "  %y: f32[s0,s1] = mul %x, %r\n  return %y")},
    {"matmul", G("%x: f32[s0,s1] input, %y: f32[s1,9] input", "f32[s0,9]", "  %c: f32[s0,9] = contract %x, %y {labels=\"ik,kj->ij\"}\n  return %c")},
    {"matmul, wide", G("%x: f32[s0,16] input, %y: f32[16,s1] input", "f32[s0,s1]",
                       "  %c: f32[s0,s1] = contract %x, %y {labels=\"ik,kj->ij\"}\n  %r: f32[s0,s1] = relu %c\n  return %r")},
    {"linear", G("%x: f32[s0,s1,16] input, %w: f32[20,16] param, %b: f32[20] param", "f32[s0,s1,20]",
                 "  %c: f32[s0,s1,20] = contract %x, %w {labels=\"bik,jk->bij\"}\n  %d: f32[s0,s1,20] = add %c, %b\n  %r: f32[s0,s1,20] = relu %d\n  return %r")},
    {"linear, flat rows", G("%x: f32[s0,s1,6] input, %w: f32[20,6] param", "f32[s0,s1,20]",
                            "  %f: f32[s0*s1,6] = reshape %x {shape=[s0*s1, 6]}\n  %c: f32[s0*s1,20] = contract %f, %w {labels=\"ik,jk->ij\"}\n"
                            "  %r: f32[s0,s1,20] = reshape %c {shape=[s0, s1, 20]}\n  return %r")},
    {"batched matmul", G("%x: f32[s0,3,s1] input, %y: f32[s0,s1,5] input", "f32[s0,3,5]",
                         "  %c: f32[s0,3,5] = contract %x, %y {labels=\"bik,bkj->bij\"}\n  return %c")},
    {"dot and outer", G("%x: f32[s0] input, %y: f32[s0] input, %z: f32[s1] input", "f32[], f32[s0,s1]",
                        "  %c: f32[] = contract %x, %y {labels=\"i,i->\"}\n  %o: f32[s0,s1] = contract %x, %z {labels=\"i,j->ij\"}\n  return %c, %o")},
    {"integer matmul", G("%x: i32[s0,s1] input, %y: i32[s1,7] input", "i32[s0,7]", "  %c: i32[s0,7] = contract %x, %y {labels=\"ik,kj->ij\"}\n  return %c")},
    {"attention", G("%q: f32[s0,2,s1,8] input, %k: f32[s0,2,s1,8] input, %v: f32[s0,2,s1,8] input", "f32[s0,2,s1,8]",
                    "  %a: f32[s0,2,s1,s1] = contract %q, %k {labels=\"bhid,bhjd->bhij\"}\n  %m: f32[s0,2,s1,1] = reduce %a {combiner=\"max\", dims=[3], keepdim=true}\n"
                    "  %d: f32[s0,2,s1,s1] = sub %a, %m\n  %e: f32[s0,2,s1,s1] = exp %d\n  %s: f32[s0,2,s1,1] = reduce %e {combiner=\"sum\", dims=[3], keepdim=true}\n"
                    "  %p: f32[s0,2,s1,s1] = div %e, %s\n  %o: f32[s0,2,s1,8] = contract %p, %v {labels=\"bhij,bhjd->bhid\"}\n  return %o")},
    {"causal mask", G("%x: f32[s0,s1] input", "f32[s0,s1]",
                      "  %i: i64[s0] = iota {size=[s0], start=0, step=1, dtype=i64}\n  %c: i64[s0,1] = reshape %i {shape=[s0, 1]}\n"
                      "  %j: i64[s1] = iota {size=[s1], start=0, step=1, dtype=i64}\n  %l: bool[s0,s1] = le %j, %c\n"
                      "  %n: f32[] = full {shape=[], value=-inf, dtype=f32}\n  %y: f32[s0,s1] = select %l, %x, %n\n  return %y")},
    {"concat", G("%x: f32[s0,3] input, %y: f32[s1,3] input", "f32[s0 + s1,3]", "  %c: f32[s0 + s1,3] = concat %x, %y {dim=0}\n  return %c")},
    {"concat of computed", G("%x: f32[3,s0] input, %y: f32[3,s1] input", "f32[3,s0 + s1 + 2]",
                             "  %a: f32[3,s0] = exp %x\n  %b: f32[3,s1] = neg %y\n  %z: f32[3,2] = full {shape=[3, 2], value=1.0, dtype=f32}\n"
                             "  %c: f32[3,s0 + s1 + 2] = concat %a, %z, %b {dim=1}\n  return %c")},
    {"concat, then on", G("%x: f32[s0,4] input, %y: f32[s0,s1] input, %w: f32[3,s1 + 4] input", "f32[s0,3]",
                          "  %c: f32[s0,s1 + 4] = concat %x, %y {dim=1}\n  %r: f32[s0,s1 + 4] = relu %c\n"
                          "  %m: f32[s0,3] = contract %r, %w {labels=\"ik,jk->ij\"}\n  return %m")},
    {"slices", G("%x: f32[s0,s1] input", "f32[s0,min(s1, 3)], f32[max(s0 - 1, 0),s1]",
                 "  %a: f32[s0,min(s1, 3)] = slice %x {dim=1, start=[0], size=[min(s1, 3)], step=1}\n"
                 "  %b: f32[max(s0 - 1, 0),s1] = slice %x {dim=0, start=[min(s0, 1)], size=[max(s0 - 1, 0)], step=1}\n"
                 "  %c: f32[max(s0 - 1, 0),s1] = exp %b\n  return %a, %c")},
    {"every second", G("%x: f32[2*s0,s1] input, %z: f32[s0] input", "f32[s0,s1]",
                       "  %a: f32[s0,s1] = slice %x {dim=0, start=[0], size=[s0], step=2}\n  %b: f32[s0,s1] = add %a, %a\n  return %b")},
    {"pad and flip", G("%x: f32[s0,s1] input", "f32[s0 + 3,s1 + 1]",
                       "  %p: f32[s0 + 3,s1 + 1] = pad %x {lo=[1, 0], hi=[2, 1], value=0.5}\n  %f: f32[s0 + 3,s1 + 1] = flip %p {dims=[0, 1]}\n"
                       "  %n: f32[s0 + 3,s1 + 1] = neg %f\n  return %n")},
    {"reshapes", G("%x: f32[s0,6] input, %y: f32[2*s1,3] input, %z: f32[s1] input", "f32[s0,2,3], f32[s1,6], f32[6*s0]",
                   "  %a: f32[s0,2,3] = reshape %x {shape=[s0, 2, 3]}\n  %e: f32[s0,2,3] = exp %a\n  %b: f32[s1,6] = reshape %y {shape=[s1, 6]}\n"
                   "  %c: f32[s1,6] = neg %b\n  %d: f32[6*s0] = reshape %x {shape=[6*s0]}\n  %f: f32[6*s0] = abs %d\n  return %e, %c, %f")},
    {"reshape of a turned one", G("%x: f32[s0,4,s1] input", "f32[s1,4*s0]",
                                  "  %p: f32[s1,s0,4] = permute %x {perm=[2, 0, 1]}\n  %r: f32[s1,4*s0] = reshape %p {shape=[s1, 4*s0]}\n  %n: f32[s1,4*s0] = neg %r\n  return %n")},
    {"heads", G("%x: f32[s0,s1,8] input", "f32[s0,s1,8]",
                "  %a: f32[s0,s1,2,4] = reshape %x {shape=[s0, s1, 2, 4]}\n  %b: f32[s0,2,s1,4] = permute %a {perm=[0, 2, 1, 3]}\n  %e: f32[s0,2,s1,4] = exp %b\n"
                "  %c: f32[s0,s1,2,4] = permute %e {perm=[0, 2, 1, 3]}\n  %d: f32[s0,s1,8] = reshape %c {shape=[s0, s1, 8]}\n  return %d")},
    {"conv", G("%x: f32[s0,3,s1,6] input, %w: f32[5,3,3,3] param, %b: f32[5] param", "f32[s0,5,s1,6]",
               "  %c: f32[s0,5,s1,6] = conv %x, %w {stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1}\n"
               "  %d: f32[5,1,1] = reshape %b {shape=[5, 1, 1]}\n  %e: f32[s0,5,s1,6] = add %c, %d\n  %r: f32[s0,5,s1,6] = relu %e\n  return %r")},
    {"conv, strided", G("%x: f32[2,3,s0,s1] input, %w: f32[16,3,3,3] param", "f32[2,16,floordiv(s0 + 1, 2),floordiv(s1 + 1, 2)]",
                        "  %c: f32[2,16,floordiv(s0 + 1, 2),floordiv(s1 + 1, 2)] = conv %x, %w {stride=[2, 2], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1}\n  return %c")},
    {"conv, pointwise", G("%x: f32[s0,4,s1,3] input, %w: f32[6,4,1,1] param", "f32[s0,6,s1,3]",
                          "  %c: f32[s0,6,s1,3] = conv %x, %w {stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1}\n  return %c")},
    {"conv, depthwise", G("%x: f32[s0,4,7,s1] input, %w: f32[4,1,3,3] param", "f32[s0,4,7,s1]",
                          "  %c: f32[s0,4,7,s1] = conv %x, %w {stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=4}\n  return %c")},
    {"conv of one dim", G("%x: f32[s0,4,s1 + 2] input, %w: f32[6,4,3] param, %z: f32[s1] input", "f32[s0,6,s1]",
                          "  %c: f32[s0,6,s1] = conv %x, %w {stride=[1], padding=[0, 0], dilation=[1], groups=1}\n  return %c")},
    {"conv, turned round", G("%x: f32[s0,4,s1,3] input, %w: f32[4,2,2,2] param", "f32[s0,2,2*s1,6]",
                             "  %c: f32[s0,2,2*s1,6] = convt %x, %w {stride=[2, 2], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, output_padding=[0, 0]}\n  return %c")},
    {"pool", G("%x: f32[s0,3,s1,6] input", "f32[s0,3,floordiv(s1, 2),3]",
               "  %p: f32[s0,3,floordiv(s1, 2),3] = window %x {combiner=\"max\", kernel=[2, 2], stride=[2, 2], padding=[0, 0, 0, 0], dilation=[1, 1], size=[floordiv(s1, 2), 3]}\n  return %p")},
    {"global pool", G("%x: f32[s0,3,s1,s1] input", "f32[s0,3]",
                      "  %a: f32[s0,3] = reduce %x {combiner=\"sum\", dims=[2, 3], keepdim=false}\n  %n: f32[] = full {shape=[], value=s1*s1, dtype=f32}\n"
                      "  %m: f32[s0,3] = div %a, %n\n  return %m")},
    {"embedding", G("%t: f32[3,s1] input, %i: i64[s0] input", "f32[s0,s1]", "  %e: f32[s0,s1] = take %t, %i {dim=0}\n  %f: f32[s0,s1] = add %e, %e\n  return %f")},
    {"gather", G("%x: f32[s0,3] input, %i: i64[s0,s1] input", "f32[s0,s1]", "  %e: f32[s0,s1] = gather %x, %i {dim=1}\n  %f: f32[s0,s1] = neg %e\n  return %f")},
    {"scatter", G("%x: f32[3,s1] input, %i: i64[s0,s1] input, %v: f32[s0,s1] input", "f32[3,s1]",
                  "  %e: f32[3,s1] = scatter %x, %i, %v {dim=0, combiner=\"sum\"}\n  return %e")},
    {"index and put", G("%x: f32[3,s1] input, %i: i64[s0] input, %v: f32[s0,s1] input", "f32[s0,s1], f32[3,s1]",
                        "  %e: f32[s0,s1] = index %x, %i {dims=[0]}\n  %p: f32[3,s1] = index_put %x, %v, %i {dims=[0], accumulate=true}\n  return %e, %p")},
    {"running sums", G("%x: f32[s0,s1] input", "f32[s0,s1], f32[s0,s1]",
                       "  %a: f32[s0,s1] = scan %x {combiner=\"sum\", dim=0}\n  %b: f32[s0,s1] = scan %x {combiner=\"max\", dim=1}\n  return %a, %b")},
    {"sort and topk", G("%x: f32[s0,s1] input", "f32[s0,s1], i64[s0,s1], f32[s0,min(s1, 3)]",
                        "  %a: f32[s0,s1], %b: i64[s0,s1] = sort %x {dim=1, descending=true, stable=true}\n"
                        "  %c: f32[s0,min(s1, 3)], %d: i64[s0,min(s1, 3)] = topk %x {k=[min(s1, 3)], dim=1, largest=true}\n  return %a, %b, %c")},
    {"lstm", G("%x: f32[s0,s1,4] input, %wi: f32[20,4] param, %wh: f32[20,5] param, %bi: f32[20] param, %bh: f32[20] param, %h: f32[s1,5] input, %c: f32[s1,5] input",
               "f32[s0,s1,5], f32[s1,5]",
               "  %y: f32[s0,s1,5], %hn: f32[s1,5], %cn: f32[s1,5] = lstm %x, %wi, %wh, %bi, %bh, %h, %c {reverse=false, hidden=[5]}\n  return %y, %hn")},
    {"several kernels", G("%x: f32[s0,s1] input, %w: f32[8,s1] input", "f32[s0,8], f32[8]",
                          "  %e: f32[s0,s1] = sigmoid %x\n  %c: f32[s0,8] = contract %e, %w {labels=\"ik,jk->ij\"}\n"
                          "  %s: f32[8] = reduce %c {combiner=\"sum\", dims=[0], keepdim=false}\n  %d: f32[s0,8] = sub %c, %s\n  return %d, %s")},
    {"view of an input", G("%x: f32[s0,s1] input", "f32[s1,s0], f32[s0*s1]",
                           "  %p: f32[s1,s0] = permute %x {perm=[1, 0]}\n  %r: f32[s0*s1] = reshape %x {shape=[s0*s1]}\n  return %p, %r")},
    {"conv, no padding", G("%x: f32[s0,4,s1] input, %w: f32[6,4,3] param", "f32[s0,6,s1 - 2]",
                           "  %c: f32[s0,6,s1 - 2] = conv %x, %w {stride=[1], padding=[0, 0], dilation=[1], groups=1}\n  return %c")},
    {"conv, two groups", G("%x: f32[s0,4,s1,s1] input, %w: f32[6,2,3,3] param", "f32[s0,6,s1,s1]",
                           "  %c: f32[s0,6,s1,s1] = conv %x, %w {stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=2}\n  %t: f32[s0,6,s1,s1] = tanh %c\n  return %t")},
    {"mean pool", G("%x: f32[s0,3,s1,6] input", "f32[s0,3,s1,6]",
                    "  %p: f32[s0,3,s1,6] = window %x {combiner=\"sum\", kernel=[3, 3], stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], size=[s1, 6]}\n"
                    "  %n: f32[] = full {shape=[], value=9.0, dtype=f32}\n  %q: f32[s0,3,s1,6] = div %p, %n\n  return %q")},
    {"places of extremes", G("%x: f32[s0,s1] input", "i64[s0], i64[s1]",
                             "  %a: i64[s0] = reduce %x {combiner=\"argmax\", dims=[1], keepdim=false}\n"
                             "  %b: i64[s1] = reduce %x {combiner=\"argmin\", dims=[0], keepdim=false}\n  return %a, %b")},
    {"counting round", G("%x: i64[s0] input, %y: f32[s1] input", "i64[s0], i64[s0]",
                         "  %i: i64[s0] = iota {size=[s0], start=0, step=3, dtype=i64}\n  %n: i64[] = full {shape=[], value=s1, dtype=i64}\n"
                         "  %r: i64[s0] = remainder %i, %n\n  %q: i64[s0] = floordiv %i, %n\n  %a: i64[s0] = add %r, %x\n  return %a, %q")},
    {"resize", G("%x: f32[s0,7] input, %y: f32[s1] input", "f32[s0,s1]",
                 "  %i: i64[s1] = iota {size=[s1], start=0, step=7, dtype=i64}\n  %n: i64[] = full {shape=[], value=s1, dtype=i64}\n"
                 "  %q: i64[s1] = floordiv %i, %n\n  %t: f32[s0,s1] = take %x, %q {dim=1}\n  return %t")},
    {"upsample", G("%x: f32[s0,3,s1,4] input", "f32[s0,3,2*s1,8]",
                   "  %a: f32[s0,3,s1,1,4,1] = reshape %x {shape=[s0, 3, s1, 1, 4, 1]}\n  %b: f32[s0,3,s1,2,4,2] = broadcast %a {shape=[s0, 3, s1, 2, 4, 2]}\n"
                   "  %c: f32[s0,3,2*s1,8] = reshape %b {shape=[s0, 3, 2*s1, 8]}\n  %d: f32[s0,3,2*s1,8] = relu %c\n  return %d")},
    {"group norm", G("%x: f32[s0,4,s1,3] input, %w: f32[4,1,1] param", "f32[s0,4,s1,3]",
                     "  %g: f32[s0,2,6*s1] = reshape %x {shape=[s0, 2, 6*s1]}\n  %s: f32[s0,2,1] = reduce %g {combiner=\"sum\", dims=[2], keepdim=true}\n"
                     "  %n: f32[] = full {shape=[], value=6*s1, dtype=f32}\n  %m: f32[s0,2,1] = div %s, %n\n  %d: f32[s0,2,6*s1] = sub %g, %m\n"
                     "  %q: f32[s0,2,6*s1] = mul %d, %d\n  %t: f32[s0,2,1] = reduce %q {combiner=\"sum\", dims=[2], keepdim=true}\n  %v: f32[s0,2,1] = div %t, %n\n"
                     "  %e: f32[] = full {shape=[], value=0.01, dtype=f32}\n  %u: f32[s0,2,1] = add %v, %e\n  %r: f32[s0,2,1] = rsqrt %u\n"
                     "  %y: f32[s0,2,6*s1] = mul %d, %r\n  %z: f32[s0,4,s1,3] = reshape %y {shape=[s0, 4, s1, 3]}\n  %o: f32[s0,4,s1,3] = mul %z, %w\n  return %o")},
    {"two summed dims", G("%x: f32[5,s0,s1] input, %y: f32[s0,s1,6] input", "f32[5,6]", "  %c: f32[5,6] = contract %x, %y {labels=\"ikl,klj->ij\"}\n  return %c")},
    {"one row", G("%x: f32[1,s0] input, %w: f32[s0,s1] input, %b: f32[s1] input", "f32[1,s1]",
                  "  %c: f32[1,s1] = contract %x, %w {labels=\"ik,kj->ij\"}\n  %d: f32[1,s1] = add %c, %b\n  return %d")},
    {"packed by columns", G("%x: f32[s0,300] input, %w: f32[200,300] param", "f32[s0,200]",
                            "  %c: f32[s0,200] = contract %x, %w {labels=\"ik,jk->ij\"}\n  %g: f32[s0,200] = sigmoid %c\n  %h: f32[s0,200] = mul %c, %g\n  return %h")},
    {"weight read in two orders", G("%x: f32[s0,1,1,1] input, %w: f32[3,4,6] param", "f32[s0,3,4,6], f32[s0,3,4]",
                                    "  %a: f32[s0,3,4,6] = add %x, %w\n  %m: f32[s0,3,4] = reduce %a {combiner=\"max\", dims=[3], keepdim=false}\n  return %a, %m")},
    {"sums before each", G("%x: f32[s0,s1] input", "f32[s0,s1]",
                           "  %a: f32[s0,s1] = scan %x {combiner=\"sum\", dim=1}\n  %p: f32[s0,s1 + 1] = pad %a {lo=[0, 1], hi=[0, 0], value=0.0}\n"
                           "  %s: f32[s0,s1] = slice %p {dim=1, start=[0], size=[s1], step=1}\n  return %s")},
    {"rows and columns at once", G("%x: f32[s0,s1] input", "f32[s0,s1]",
                                   "  %r: f32[s0,1] = reduce %x {combiner=\"max\", dims=[1], keepdim=true}\n  %c: f32[1,s1] = reduce %x {combiner=\"max\", dims=[0], keepdim=true}\n"
                                   "  %s: f32[s0,s1] = add %r, %c\n  %d: f32[s0,s1] = sub %x, %s\n  return %d")},
    {"as it came, and sizes", G("%x: f32[s0,s1] input", "f32[s0,s1], dim", "  return %x, dim 2*s0 + s1")},
    {"stacked", G("%x: f32[s0] input, %y: f32[s0] input", "f32[s0,2]",
                  "  %a: f32[s0,1] = reshape %x {shape=[s0, 1]}\n  %b: f32[s0,1] = reshape %y {shape=[s0, 1]}\n  %c: f32[s0,2] = concat %a, %b {dim=1}\n"
                  "  %e: f32[s0,2] = exp %c\n  return %e")},
    {"16-bit", G("%x: f16[s0,s1] input, %y: bf16[s1] input", "f16[s0,s1], bf16[]",
                 "  %a: f16[s0,s1] = exp %x\n  %b: bf16[] = reduce %y {combiner=\"sum\", dims=[0], keepdim=false}\n  return %a, %b")},
};

static const int64_t sizes[] = {0, 1, 2, 7, 64};
enum { N_SIZES = sizeof sizes / sizeof *sizes, MAX_PORTS = 8 };

typedef struct world {
  tn_arena a;
  tn_dims *dims;
  tn_diag d;
  tn_graph *g;
  tn_compiled *c;
  tn_run *r;
  tn_tensor in[MAX_PORTS];
} world;

/* Row-major, but the stride of a dim that nothing steps along is anything: so do NumPy and torch. */
static int64_t *odd_strides(world *w, const int64_t *shape, uint32_t rank, int64_t n) {
  int64_t *stride = TN_NEW(&w->a, int64_t, rank + 1u), dense = 1;
  assert_non_null(stride);
  for (uint32_t k = rank; k-- > 0; dense *= shape[k]) stride[k] = n == 0 || shape[k] == 1 ? 77 : dense;
  return stride;
}

/* Parameters keep their address and values, as the run time's packs of them take for granted; the others are new for every call. */
static void make_inputs(world *w, const int64_t *sym, bool params, bool odd) {
  for (uint32_t i = 0; i < w->g->n_inputs; i++) {
    uint64_t seed = 12345 + i;
    const tn_type *t = tn_typeof(w->g, w->g->input[i]);
    if ((w->g->node[w->g->value[w->g->input[i].id].node].input->origin == TN_ORIGIN_PARAM) != params) continue;
    tn_dtype dt = (tn_dtype)t->dtype;
    int64_t *shape = TN_NEW(&w->a, int64_t, t->rank + 1u), n = 1;
    assert_non_null(shape);
    for (uint32_t k = 0; k < t->rank; k++) {
      assert_int_equal(tn_dim_eval(w->dims, t->dim[k], sym, &shape[k]), TN_OK);
      n *= shape[k];
    }
    char *p = tn_arena_alloc(&w->a, (size_t)n * tn_dtype_size(dt) + 64);
    assert_non_null(p);
    for (int64_t k = 0; k < n; k++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      tn_num v = {.f = (double)((int64_t)(seed >> 40) % 4001 - 2000) / 1000};
      if (!tn_dtype_is_float(dt)) v.i = (int64_t)(seed >> 60) % 3; /* also good as an index into 3 rows */
      tn_num_store(dt, p + k * (int64_t)tn_dtype_size(dt), tn_dtype_is_float(dt) ? tn_num_cast(v, TN_F64, dt) : v);
    }
    w->in[i] = (tn_tensor){.data = p, .shape = shape, .strides = odd ? odd_strides(w, shape, t->rank, n) : NULL, .rank = t->rank, .dtype = t->dtype};
  }
}

/* Element number `at` in row-major order of a tensor of any strides. */
static tn_num element(const tn_tensor *t, int64_t at) {
  int64_t off = 0, dense = 1;
  for (int k = t->rank - 1; k >= 0; k--) {
    off += at % t->shape[k] * (t->strides ? t->strides[k] : dense);
    dense *= t->shape[k];
    at /= t->shape[k];
  }
  return tn_num_load((tn_dtype)t->dtype, (char *)t->data + off * (int64_t)tn_dtype_size((tn_dtype)t->dtype));
}

static bool same(const tn_tensor *got, const tn_tensor *want, char *why, size_t n_why) {
  int64_t n = 1;
  if (got->rank != want->rank || got->dtype != want->dtype) return snprintf(why, n_why, "rank or dtype"), false;
  for (int k = 0; k < got->rank; k++) {
    if (got->shape[k] != want->shape[k]) return snprintf(why, n_why, "dim %d is %lld, wanted %lld", k, (long long)got->shape[k], (long long)want->shape[k]), false;
    n *= got->shape[k];
  }
  tn_dtype t = (tn_dtype)got->dtype;
  double eps = t == TN_F16 ? 2e-3 : t == TN_BF16 ? 1.6e-2 : 1e-4;
  for (int64_t k = 0; k < n; k++) {
    tn_num x = element(got, k), y = element(want, k);
    bool fine = !tn_dtype_is_float(t) ? x.i == y.i : x.f == y.f || (isnan(x.f) && isnan(y.f)) || fabs(x.f - y.f) <= eps * (1 + fabs(y.f));
    if (fine) continue;
    if (tn_dtype_is_float(t)) snprintf(why, n_why, "element %lld is %g, wanted %g", (long long)k, x.f, y.f);
    else snprintf(why, n_why, "element %lld is %lld, wanted %lld", (long long)k, (long long)x.i, (long long)y.i);
    return false;
  }
  return true;
}

/* One call at these sizes; false and `why` when it is not what the evaluator says. */
static bool call(world *w, const int64_t *sym, bool odd, char *why, size_t n_why) {
  tn_tensor *in = w->in, want[MAX_PORTS], got[MAX_PORTS];
  uint32_t n_out = w->g->n_outputs;
  make_inputs(w, sym, false, odd);
  tn_diag_clear(&w->d);
  tn_status s = tn_ops_eval_graph(&w->d, &w->a, w->g, in, want), b = tn_run_bind(w->r, in, NULL);
  if (s != TN_OK) return snprintf(why, n_why, "the evaluator says: %.200s; the program: %s", w->d.text, b == TN_OK ? "fine" : tn_run_error(w->r)), b != TN_OK;
  if (b != TN_OK) return snprintf(why, n_why, "bind: %.300s", tn_run_error(w->r)), false;
  for (uint32_t k = 0; k < n_out; k++) {
    if (tn_run_out(w->r, k, &got[k]) != TN_OK) return snprintf(why, n_why, "out: %.300s", tn_run_error(w->r)), false;
    if (tn_run_out_alias(w->r, k) >= 0 || got[k].data) continue; /* a view of an input, or a size */
    int64_t extent = 1;
    for (int j = 0; j < got[k].rank; j++) {
      if (!got[k].strides) extent *= got[k].shape[j];
      else if (got[k].shape[j] > 0) extent += (got[k].shape[j] - 1) * got[k].strides[j];
    }
    got[k].data = tn_arena_alloc(&w->a, (size_t)extent * 8 + 64);
    assert_non_null(got[k].data);
    memset(got[k].data, 0x5a, (size_t)extent * 8 + 64);
  }
  if (tn_run_exec(w->r, got) != TN_OK) return snprintf(why, n_why, "exec: %.300s", tn_run_error(w->r)), false;
  for (uint32_t k = 0; k < n_out; k++) {
    char what[160];
    if (same(&got[k], &want[k], what, sizeof what)) continue;
    snprintf(why, n_why, "result %u: %s", k, what);
    return false;
  }
  return true;
}

static uint32_t run_row(const row *r, const char *isa) {
  world w = {0};
  uint32_t bad = 0;
  char why[600];
  tn_arena_init(&w.a);
  w.dims = tn_dims_create();
  tn_diag_clear(&w.d);
  tn_compile_options o;
  tn_compile_options_init(&o);
  o.isa = isa;
  if (tn_graph_parse(&w.d, &w.a, w.dims, r->text, strlen(r->text), &w.g) != TN_OK || tn_ops_verify(&w.d, w.g) != TN_OK) fail_msg("%s: %s", r->name, w.d.text);
  if (tn_compile_text(r->text, strlen(r->text), &o, &w.c) != TN_OK) fail_msg("%s: %s", r->name, tn_compiled_error(w.c));
  assert_int_equal(tn_run_create(tn_compiled_program(w.c), NULL, &w.r), TN_OK);
  uint32_t n_sym = tn_dims_n_syms(w.dims), rounds = n_sym == 2 ? N_SIZES * N_SIZES : N_SIZES;
  assert_in_range(n_sym, 1, 2);
  make_inputs(&w, sizes, true, false);
  for (uint32_t k = 0; k < 2 * rounds; k++) { /* there and back: what one call leaves behind must not help the next */
    uint32_t at = k < rounds ? k : 2 * rounds - 1 - k;
    int64_t sym[2] = {sizes[at % N_SIZES], sizes[at / N_SIZES % N_SIZES]};
    tn_mark m = tn_arena_mark(&w.a);
    if (!call(&w, sym, k >= rounds, why, sizeof why)) {
      print_error("%s, %s, %lld and %lld: %s\n", r->name, isa, (long long)sym[0], (long long)sym[1], why);
      bad++;
    }
    tn_arena_rewind(&w.a, m);
  }
  tn_run_destroy(w.r);
  tn_compiled_destroy(w.c);
  tn_dims_destroy(w.dims);
  tn_arena_deinit(&w.a);
  return bad;
}

static const char *isa_of_all = "avx2";
static void test_all(void **state) {
  uint32_t bad = 0;
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) bad += run_row(&rows[i], isa_of_all);
  assert_int_equal(bad, 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
  if (argc > 1) isa_of_all = argv[1];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
