/* Shape rules: every op of ops.def with forms it takes and forms it refuses, constant and symbolic. A row is one node; what
 * the rule answers is compared as text, types or (after '!') a piece of the message. Scalar functions are walked by table. */
#include "ops_test.h"

typedef struct row {
  const char *inputs, *node, *want;
} row;
#define F "f32[2,3,4]"
#define SYM "f32[s0,3,s1]"
static const row rows[] = {
    /* full, iota */
    {"", "full {shape=[2, s0, 0], value=1.5, dtype=bf16}", "bf16[2,s0,0]"},
    {"", "full {shape=[], value=true, dtype=bool}", "bool[]"},
    {"", "full {shape=[2], value=s0, dtype=i64}", "i64[2]"},
    {"", "full {shape=[-1], value=0, dtype=f32}", "!shape is -1, which is negative"},
    {"", "full {shape=[2], value=\"x\", dtype=f32}", "!attribute 'value' is not a number"},
    {"", "full {shape=[2], value=0}", "!attribute 'dtype' is missing"},
    {"", "full {shape=[2], value=0, dtype=1}", "!attribute 'dtype' is not a dtype"},
    {"", "full {shape=[1,1,1,1,1,1,1,1,1,1,1,1,1], value=0, dtype=f32}", "!'shape' has over 12 items"},
    {"", "iota {size=[s0], start=3, step=-2, dtype=i32}", "i32[s0]"},
    {"", "iota {size=[5], start=0.5, step=0.1, dtype=f16}", "f16[5]"},
    {"", "iota {size=[5], start=s0, step=1, dtype=i64}", "i64[5]"},
    {"", "iota {size=[5], start=0.5, step=1, dtype=i64}", "!attribute 'start' is not an integer"},
    {"", "iota {size=[5], start=0, step=0.5, dtype=i64}", "!attribute 'step' is not an integer"},
    {"", "iota {size=[5, 6], start=0, step=1, dtype=i64}", "!'size' has 2 items, wants 1"},
    {"", "iota {size=[5], start=0, step=1, dtype=bool}", "!iota: does not make bool"},
    /* cast, copy */
    {"%a: " SYM, "cast %a {dtype=i8}", "i8[s0,3,s1]"},
    {"%a: " SYM, "cast %a", "!cast: attribute 'dtype' is missing"},
    {"%a: f32[]", "cast %a {dtype=i8, shape=[1]}", "!2 attributes, of which it knows 1"},
    {"%a: " SYM, "copy %a", "f32[s0,3,s1]"},
    {"%a: " SYM, "copy %a, %a", "!copy: 2 operands, takes 1 to 1"},
    /* reshape */
    {"%a: " F, "reshape %a {shape=[6, 4]}", "f32[6,4]"},
    {"%a: " F, "reshape %a {shape=[]}", "!reshape: [2,3,4] has 24 elements, [] has 1"},
    {"%a: f32[1,1]", "reshape %a {shape=[]}", "f32[]"},
    {"%a: " SYM, "reshape %a {shape=[3*s0, s1]}", "f32[3*s0,s1]"},
    {"%a: " SYM, "reshape %a {shape=[3*s0*s1]}", "f32[3*s0*s1]"},
    {"%a: " SYM, "reshape %a {shape=[3*s0*s1 + 1]}", "![s0,3,s1] has 3*s0*s1 elements, [3*s0*s1 + 1] has 3*s0*s1 + 1"},
    {"%a: f32[s0]", "reshape %a {shape=[floordiv(s0, 4), 4]}", "f32[floordiv(s0, 4),4]"}, /* not provable either way: left to run time */
    {"%a: f32[0,s0]", "reshape %a {shape=[0, 7]}", "f32[0,7]"},
    {"%a: f32[s0]", "reshape %a {shape=[9223372036854775807, 2, s0]}", "!number of elements asked for overflows"},
    /* permute */
    {"%a: " SYM, "permute %a {perm=[2, 0, 1]}", "f32[s1,s0,3]"},
    {"%a: f32[]", "permute %a {perm=[]}", "f32[]"},
    {"%a: " SYM, "permute %a {perm=[2, 0]}", "!permute: perm has 2 items, rank is 3"},
    {"%a: " SYM, "permute %a {perm=[2, 0, 0]}", "!perm names dim 0 twice"},
    {"%a: " SYM, "permute %a {perm=[2, 0, 3]}", "!perm[2] is 3, rank is 3"},
    {"%a: " SYM, "permute %a {perm=[2, 0, s0]}", "!perm[2] is s0, wants a constant"},
    /* broadcast */
    {"%a: f32[3,1]", "broadcast %a {shape=[s0, 3, s1]}", "f32[s0,3,s1]"},
    {"%a: f32[]", "broadcast %a {shape=[2, 2]}", "f32[2,2]"},
    {"%a: f32[s0,1]", "broadcast %a {shape=[s1, 2]}", "!operand and shape: s0 and s1 differ"},
    {"%a: f32[3]", "broadcast %a {shape=[]}", "!rank 1 into rank 0"},
    {"%a: f32[3]", "broadcast %a {shape=[2]}", "!3 and 2 differ"},
    /* slice */
    {"%a: " F, "slice %a {dim=2, start=[1], size=[2], step=2}", "f32[2,3,2]"},
    {"%a: " F, "slice %a {dim=2, start=[4], size=[0], step=1}", "f32[2,3,0]"},
    {"%a: " SYM, "slice %a {dim=0, start=[s0 - 1], size=[1], step=1}", "f32[1,3,s1]"},
    {"%a: f32[s0 + 1]", "slice %a {dim=0, start=[1], size=[s0], step=1}", "f32[s0]"},
    {"%a: f32[s0]", "slice %a {dim=0, start=[s0], size=[1], step=1}", "!start s0, size 1, step 1 reach past dim 0 of size s0"},
    {"%a: " F, "slice %a {dim=2, start=[1], size=[3], step=2}", "!reach past dim 2 of size 4"},
    {"%a: " F, "slice %a {dim=3, start=[0], size=[1], step=1}", "!dim is 3, rank is 3"},
    {"%a: " F, "slice %a {dim=-1, start=[0], size=[1], step=1}", "!dim is -1, rank is 3"},
    {"%a: " F, "slice %a {dim=0, start=[0], size=[1], step=0}", "!step is 0, wants at least 1"},
    {"%a: " F, "slice %a {dim=0, start=[0], step=1}", "!attribute 'size' is missing"},
    {"%a: " F, "slice %a {dim=1.5, start=[0], size=[1], step=1}", "!attribute 'dim' is not an integer"},
    /* flip */
    {"%a: " SYM, "flip %a {dims=[2, 0]}", "f32[s0,3,s1]"},
    {"%a: " SYM, "flip %a {dims=[3]}", "!dims[0] is 3, rank is 3"},
    {"%a: " SYM, "flip %a {dims=[1, 1]}", "!dims names dim 1 twice"},
    /* pad */
    {"%a: " SYM, "pad %a {lo=[0, 1, 0], hi=[2, 0, s0], value=0}", "f32[s0 + 2,4,s0 + s1]"},
    {"%a: f32[]", "pad %a {lo=[], hi=[], value=0}", "f32[]"},
    {"%a: f32[3]", "pad %a {lo=[0, 0], hi=[0], value=0}", "!'lo' has 2 items, wants 1"},
    {"%a: f32[3]", "pad %a {lo=[-1], hi=[0], value=0}", "!lo is -1, which is negative"},
    {"%a: f32[3]", "pad %a {lo=[0], hi=[9223372036854775807], value=0}", "!result dim overflows"},
    /* concat */
    {"%a: " SYM ", %b: f32[s0,3,5]", "concat %a, %b, %a {dim=2}", "f32[s0,3,2*s1 + 5]"},
    {"%a: " SYM, "concat %a {dim=0}", "f32[s0,3,s1]"},
    {"%a: " SYM, "concat {dim=0}", "!concat: 0 operands, takes 1 to -1"},
    {"%a: " SYM ", %b: f32[s1,3,5]", "concat %a, %b {dim=2}", "!operand 1 dim 0 is s1, operand 0 has s0"},
    {"%a: f32[3], %b: f32[3,1]", "concat %a, %b {dim=0}", "!operand 1 has rank 2, operand 0 has 1"},
    {"%a: f32[3], %b: f64[3]", "concat %a, %b {dim=0}", "!operand 0 is f32, operand 1 is f64"},
    {"%a: f32[]", "concat %a {dim=0}", "!dim is 0, rank is 0"},
    /* reduce */
    {"%a: " SYM, "reduce %a {combiner=\"sum\", dims=[0, 2]}", "f32[3]"},
    {"%a: " SYM, "reduce %a {combiner=\"max\", dims=[1], keepdim=true}", "f32[s0,1,s1]"},
    {"%a: " SYM, "reduce %a {combiner=\"min\", dims=[]}", "f32[s0,3,s1]"},
    {"%a: bool[2,s0]", "reduce %a {combiner=\"any\", dims=[1]}", "bool[2]"},
    {"%a: " SYM, "reduce %a {combiner=\"argmax\", dims=[2]}", "i64[s0,3]"},
    {"%a: bool[3]", "reduce %a {combiner=\"argmin\", dims=[0], keepdim=true}", "i64[1]"},
    {"%a: " SYM, "reduce %a {combiner=\"argmax\", dims=[0, 1]}", "!argmax over 2 dims, wants one"},
    {"%a: f32[0]", "reduce %a {combiner=\"argmax\", dims=[0]}", "!argmax of no elements"},
    {"%a: " SYM, "reduce %a {combiner=\"any\", dims=[1]}", "!any does not take f32"},
    {"%a: bool[2]", "reduce %a {combiner=\"sum\", dims=[0]}", "!sum does not take bool"},
    {"%a: " SYM, "reduce %a {combiner=\"mean\", dims=[1]}", "!'mean' is not a combiner"},
    {"%a: " SYM, "reduce %a {combiner=\"sum\", dims=[1, 1]}", "!dims names dim 1 twice"},
    {"%a: " SYM, "reduce %a {combiner=\"sum\"}", "!attribute 'dims' is missing"},
    /* scan */
    {"%a: " SYM, "scan %a {combiner=\"sum\", dim=2}", "f32[s0,3,s1]"},
    {"%a: " SYM, "scan %a {combiner=\"argmax\", dim=2}", "!no scan with argmax"},
    {"%a: bool[3]", "scan %a {combiner=\"prod\", dim=0}", "!prod does not take bool"},
    {"%a: f32[]", "scan %a {combiner=\"sum\", dim=0}", "!dim is 0, rank is 0"},
    /* contract */
    {"%a: f32[s0,3], %b: f32[3,5]", "contract %a, %b {labels=\"ik,kj->ij\"}", "f32[s0,5]"},
    {"%a: i8[4], %b: i8[5]", "contract %a, %b {labels=\"i,j->ji\"}", "i8[5,4]"},
    {"%a: f32[4], %b: f32[4]", "contract %a, %b {labels=\"Z,Z->\"}", "f32[]"},
    {"%a: f32[s0,3], %b: f32[4,5]", "contract %a, %b {labels=\"ik,kj->ij\"}", "!dim k is 3 and 4"},
    {"%a: f32[s0,3], %b: f32[s1,5]", "contract %a, %b {labels=\"ik,ij->kj\"}", "!dim i is s0 and s1"},
    {"%a: f32[2,3], %b: f32[3,5]", "contract %a, %b {labels=\"ikl,kj->ij\"}", "!3 and 2 labels for operands of rank 2 and 2"},
    {"%a: f32[3,3], %b: f32[3]", "contract %a, %b {labels=\"ii,i->i\"}", "!label i twice in one place"},
    {"%a: f32[3], %b: f32[3]", "contract %a, %b {labels=\"i,i->j\"}", "!label j is in the result only"},
    {"%a: f32[3], %b: f32[3]", "contract %a, %b {labels=\"i,i->ii\"}", "!label i twice in one place"},
    {"%a: f32[3], %b: f32[3]", "contract %a, %b {labels=\"i->i\"}", "!labels hold '-'"},
    {"%a: f32[3], %b: f32[3]", "contract %a, %b {labels=\"i\"}", "!labels want the form 'ik,kj->ij'"},
    {"%a: f32[3], %b: f32[3]", "contract %a, %b {labels=\"i,i\"}", "!labels want the form 'ik,kj->ij'"},
    {"%a: f32[3], %b: f32[3]", "contract %a, %b {labels=\"i,i-i\"}", "!labels want the form 'ik,kj->ij'"},
    {"%a: f32[3], %b: f32[3]", "contract %a, %b {labels=\"i,i->abcdefghijklm\"}", "!over 12 labels in one place"},
    {"%a: f32[3], %b: f16[3]", "contract %a, %b {labels=\"i,i->\"}", "!operand 0 is f32, operand 1 is f16"},
    {"%a: bool[3], %b: bool[3]", "contract %a, %b {labels=\"i,i->\"}", "!does not take bool"},
/* conv */
#define CONV(st, pd, dl, g) " {stride=" st ", padding=" pd ", dilation=" dl ", groups=" g "}"
    {"%a: f32[s0,3,h,w], %b: f32[8,3,3,3]", "conv %a, %b" CONV("[2, 1]", "[1, 1, 0, 2]", "[1, 1]", "1"), "f32[s0,8,floordiv(h + 1, 2),w]"},
    {"%a: f32[1,4,10], %b: f32[6,2,3]", "conv %a, %b" CONV("[3]", "[0, 0]", "[2]", "2"), "f32[1,6,2]"},
    {"%a: f32[1,1,1,1,1], %b: f32[1,1,1,1,1]", "conv %a, %b" CONV("[1, 1, 1]", "[0, 0, 0, 0, 0, 0]", "[1, 1, 1]", "1"), "f32[1,1,1,1,1]"},
    {"%a: f32[1,4,s0], %b: f32[6,4,1]", "conv %a, %b" CONV("[1]", "[s0, 0]", "[1]", "1"), "f32[1,6,2*s0]"},
    {"%a: f32[1,4,10], %b: f32[6,4,3]", "conv %a, %b" CONV("[1]", "[0, 0]", "[1]", "2"),
     "!channels of x and of w times groups: 4 and 8 differ"},
    {"%a: f32[1,4,10], %b: f32[5,2,3]", "conv %a, %b" CONV("[1]", "[0, 0]", "[1]", "2"), "!5 output channels in 2 groups"},
    {"%a: f32[1,4,4], %b: f32[5,4,3]", "conv %a, %b" CONV("[1]", "[0, 0]", "[2]", "1"),
     "!a window of 5 over 4 padded elements of spatial dim 0"},
    {"%a: f32[1,4,4], %b: f32[5,4,3]", "conv %a, %b" CONV("[0]", "[0, 0]", "[1]", "1"), "!stride[0] is 0, wants at least 1"},
    {"%a: f32[1,4,4], %b: f32[5,4,3]", "conv %a, %b" CONV("[1]", "[0]", "[1]", "1"), "!'padding' has 1 items, wants 2"},
    {"%a: f32[1,4,4], %b: f32[5,4,3]", "conv %a, %b" CONV("[1]", "[-1, 0]", "[1]", "1"), "!padding is -1, which is negative"},
    {"%a: f32[1,4,4], %b: f32[5,4,3]", "conv %a, %b" CONV("[1]", "[0, 0]", "[1]", "0"), "!groups is 0"},
    {"%a: f32[4,4], %b: f32[5,4]", "conv %a, %b" CONV("[]", "[]", "[]", "1"), "!ranks 2 and 2, wants two equal ones of at least 3"},
    {"%a: f32[1,4,4], %b: f16[5,4,3]", "conv %a, %b" CONV("[1]", "[0, 0]", "[1]", "1"), "!operand 0 is f32, operand 1 is f16"},
    {"%a: bool[1,4,4], %b: bool[5,4,3]", "conv %a, %b" CONV("[1]", "[0, 0]", "[1]", "1"), "!does not take bool"},
#define CONVT(st, pd, dl, g, x) " {stride=" st ", padding=" pd ", dilation=" dl ", groups=" g ", output_padding=" x "}"
    {"%a: f32[s0,3,h], %b: f32[3,8,4]", "convt %a, %b" CONVT("[2]", "[1, 1]", "[1]", "1", "[0]"), "f32[s0,8,2*h]"},
    {"%a: f32[1,4,5], %b: f32[4,2,3]", "convt %a, %b" CONVT("[2]", "[0, 1]", "[2]", "2", "[1]"), "f32[1,4,13]"},
    {"%a: f32[1,4,5], %b: f32[3,2,3]", "convt %a, %b" CONVT("[1]", "[0, 0]", "[1]", "1", "[0]"), "!channels of x and of w: 4 and 3 differ"},
    {"%a: f32[1,3,5], %b: f32[3,2,3]", "convt %a, %b" CONVT("[1]", "[0, 0]", "[1]", "2", "[0]"), "!3 input channels in 2 groups"},
    {"%a: f32[1,3,1], %b: f32[3,2,1]", "convt %a, %b" CONVT("[1]", "[2, 0]", "[1]", "1", "[0]"), "!result dim is -1, which is negative"},
    {"%a: f32[1,3,5], %b: f32[3,2,3]", "convt %a, %b" CONVT("[1]", "[0, 0]", "[1]", "1", "[]"), "!'output_padding' has 0 items, wants 1"},
/* window */
#define WIN(c, k, st, pd, dl, sz) " {combiner=\"" c "\", kernel=" k ", stride=" st ", padding=" pd ", dilation=" dl ", size=" sz "}"
    {"%a: f32[s0,3,8,s1]", "window %a" WIN("max", "[2, 2]", "[2, 2]", "[0, 0, 0, 0]", "[1, 1]", "[4, floordiv(s1, 2)]"),
     "f32[s0,3,4,floordiv(s1, 2)]"},
    {"%a: f32[9]", "window %a" WIN("sum", "[3]", "[3]", "[0, 0]", "[1]", "[3]"), "f32[3]"},
    {"%a: f32[9]", "window %a" WIN("argmax", "[3]", "[3]", "[0, 0]", "[1]", "[3]"), "!no window with argmax"},
    {"%a: f32[9]", "window %a" WIN("all", "[3]", "[3]", "[0, 0]", "[1]", "[3]"), "!all does not take f32"},
    {"%a: f32[9]", "window %a" WIN("max", "[0]", "[3]", "[0, 0]", "[1]", "[3]"), "!kernel[0] is 0, wants at least 1"},
    {"%a: f32[9]", "window %a" WIN("max", "[]", "[]", "[]", "[]", "[]"), "!kernel of 0 dims over rank 1"},
    {"%a: f32[9]", "window %a" WIN("max", "[1, 1]", "[1, 1]", "[0, 0, 0, 0]", "[1, 1]", "[1, 1]"), "!kernel of 2 dims over rank 1"},
    {"%a: f32[9]", "window %a" WIN("max", "[1]", "[1, 1]", "[0, 0]", "[1]", "[1]"), "!'stride' has 2 items, wants 1"},
    {"%a: f32[9]", "window %a" WIN("max", "[1]", "[1]", "[0, 0]", "[1]", "[1, 1]"), "!'size' has 2 items, wants 1"},
    /* take, gather, index, index_put */
    {"%a: " SYM ", %i: i64[2,s2]", "take %a, %i {dim=1}", "f32[s0,2,s2,s1]"},
    {"%a: " SYM ", %i: i32[]", "take %a, %i {dim=0}", "f32[3,s1]"},
    {"%a: " SYM ", %i: f32[2]", "take %a, %i {dim=1}", "!operand 1 is an index and must be i64 or i32, not f32"},
    {"%a: " SYM ", %i: i64[2]", "take %a, %i {dim=3}", "!dim is 3, rank is 3"},
    {"%a: f32[1,1,1,1,1,1,1,1,1,1,1,1], %i: i64[1,1]", "take %a, %i {dim=3}", "!result of rank 13, at most 12"},
    {"%a: f32[4,5], %i: i64[2,9]", "gather %a, %i {dim=1}", "f32[2,9]"},
    {"%a: f32[4,5], %i: i64[5,2]", "gather %a, %i {dim=1}", "!index dim 0 is 5, operand has 4"},
    {"%a: f32[4,5], %i: i64[5]", "gather %a, %i {dim=1}", "!index of rank 1 into rank 2"},
    {"%a: f32[4,5], %i: i16[2,2]", "gather %a, %i {dim=1}", "!must be i64 or i32, not i16"},
    {"%a: f32[4,5,6,s0], %i: i64[2,1], %j: i64[7]", "index %a, %i, %j {dims=[1, 2]}", "f32[4,2,7,s0]"},
    {"%a: f32[4,5,6,s0], %i: i64[2,1], %j: i64[7]", "index %a, %i, %j {dims=[0, 2]}", "f32[2,7,5,s0]"},
    {"%a: f32[4,5], %i: i32[]", "index %a, %i {dims=[1]}", "f32[4]"},
    {"%a: f32[4,5], %i: i64[2], %j: i64[3]", "index %a, %i, %j {dims=[0, 1]}", "!dim 1 from the right: 2 and 3 do not broadcast"},
    {"%a: f32[4,5], %i: i64[2]", "index %a, %i {dims=[0, 1]}", "!2 dims for 1 index tensors"},
    {"%a: f32[4,5], %i: i64[2]", "index %a, %i, %i {dims=[1, 0]}", "!dims must rise, 0 after 1"},
    {"%a: f32[4,5], %i: bool[4]", "index %a, %i {dims=[0]}", "!must be i64 or i32, not bool"},
    {"%a: f32[4,5], %i: i64[1,1,1,1,1,1,1,1,1,1,1,1]", "index %a, %i {dims=[0]}", "!result of rank 13, at most 12"},
    {"%a: f32[4,5], %v: f32[], %i: i64[7]", "index_put %a, %v, %i {dims=[1], accumulate=true}", "f32[4,5]"},
    {"%a: f32[4,s0], %v: f32[7,s0], %i: i64[7]", "index_put %a, %v, %i {dims=[0]}", "f32[4,s0]"},
    {"%a: f32[4,5], %v: f32[2], %i: i64[7]", "index_put %a, %v, %i {dims=[1]}", "!values and indexed shape: 2 and 7 differ"},
    {"%a: f32[4], %v: f32[1,1], %i: i64[7]", "index_put %a, %v, %i {dims=[0]}", "!values of rank 2 into rank 1"},
    {"%a: f32[4], %v: f16[], %i: i64[7]", "index_put %a, %v, %i {dims=[0]}", "!operand 0 is f32, operand 1 is f16"},
    /* scatter, sort, topk, lstm */
    {"%a: f32[4,5], %i: i64[2,9], %s: f32[2,9]", "scatter %a, %i, %s {dim=1, combiner=\"set\"}", "f32[4,5]"},
    {"%a: f32[4,5], %i: i64[2,3], %s: f32[1,3]", "scatter %a, %i, %s {dim=1, combiner=\"sum\"}",
     "!index dim 0 is 2, source has 1, operand 4"},
    {"%a: f32[4,5], %i: i64[5,3], %s: f32[5,3]", "scatter %a, %i, %s {dim=1, combiner=\"max\"}",
     "!index dim 0 is 5, source has 5, operand 4"},
    {"%a: f32[4,5], %i: i64[5], %s: f32[5]", "scatter %a, %i, %s {dim=1, combiner=\"max\"}", "!ranks 2, 1, 1"},
    {"%a: f32[4], %i: i64[4], %s: f32[4]", "scatter %a, %i, %s {dim=0, combiner=\"mean\"}", "!combiner is 'mean', wants set"},
    {"%a: f32[4], %i: i64[4], %s: f16[4]", "scatter %a, %i, %s {dim=0, combiner=\"set\"}", "!operand 0 is f32, operand 2 is f16"},
    {"%a: " SYM, "sort %a {dim=0, descending=true, stable=true}", "f32[s0,3,s1] i64[s0,3,s1]"},
    {"%a: f32[]", "sort %a {dim=0}", "!dim is 0, rank is 0"},
    {"%a: " SYM, "topk %a {k=[2], dim=1, largest=true}", "f32[s0,2,s1] i64[s0,2,s1]"},
    {"%a: " SYM, "topk %a {k=[s0], dim=0}", "f32[s0,3,s1] i64[s0,3,s1]"},
    {"%a: " SYM, "topk %a {k=[4], dim=1}", "!k is 4, dim 1 has 3"},
    {"%a: " SYM, "topk %a {k=[s0 + 1], dim=0}", "!k is s0 + 1, dim 0 has s0"},
#define LSTM(x, wi, wh, bi, bh, h, c) "%x: " x ", %w: " wi ", %u: " wh ", %b: " bi ", %d: " bh ", %h: " h ", %c: " c
#define RUN "lstm %x, %w, %u, %b, %d, %h, %c {hidden=[5]}"
    {LSTM("f32[t,b,4]", "f32[20,4]", "f32[20,5]", "f32[20]", "f32[20]", "f32[b,5]", "f32[b,5]"), RUN, "f32[t,b,5] f32[b,5] f32[b,5]"},
    {LSTM("f32[t,b,4]", "f32[20,4]", "f32[20,5]", "f32[20]", "f32[20]", "f32[b,5]", "f32[2,5]"), RUN,
     "!batch of state and of x: 2 and b differ"},
    {LSTM("f32[t,b,4]", "f32[20,4]", "f32[20,5]", "f32[20]", "f32[20]", "f32[b,6]", "f32[b,5]"), RUN,
     "!width of state and hidden: 6 and 5 differ"},
    {LSTM("f32[t,b,4]", "f32[20,3]", "f32[20,5]", "f32[20]", "f32[20]", "f32[b,5]", "f32[b,5]"), RUN,
     "!columns of w_ih and features of x: 3 and 4 differ"},
    {LSTM("f32[t,b,4]", "f32[20,4]", "f32[20,4]", "f32[20]", "f32[20]", "f32[b,5]", "f32[b,5]"), RUN,
     "!columns of w_hh and hidden: 4 and 5 differ"},
    {LSTM("f32[t,b,4]", "f32[20,4]", "f32[20,5]", "f32[20]", "f32[19]", "f32[b,5]", "f32[b,5]"), RUN, "!4 * hidden: 19 and 20 differ"},
    {LSTM("f32[t,b,4]", "f32[20,4]", "f32[20,5]", "f32[20]", "f16[20]", "f32[b,5]", "f32[b,5]"), RUN,
     "!operand 4 is f16 of rank 1, wants f32 of rank 1"},
    {LSTM("f32[b,4]", "f32[20,4]", "f32[20,5]", "f32[20]", "f32[20]", "f32[b,5]", "f32[b,5]"), RUN,
     "!operand 0 is f32 of rank 2, wants f32 of rank 3"},
#define GRU(x, wi, wh, bi, bh, h) "%x: " x ", %w: " wi ", %u: " wh ", %b: " bi ", %d: " bh ", %h: " h
#define RUN_GRU "gru %x, %w, %u, %b, %d, %h {hidden=[5]}"
    {GRU("f32[t,b,4]", "f32[15,4]", "f32[15,5]", "f32[15]", "f32[15]", "f32[b,5]"), RUN_GRU, "f32[t,b,5] f32[b,5]"},
    {GRU("f32[t,b,4]", "f32[15,4]", "f32[15,5]", "f32[15]", "f32[20]", "f32[b,5]"), RUN_GRU, "!3 * hidden: 20 and 15 differ"},
    {GRU("f32[t,b,4]", "f32[15,4]", "f32[15,5]", "f32[15]", "f32[15]", "f32[b,6]"), RUN_GRU, "!width of state and hidden: 6 and 5 differ"},
    {"%x: u8[s0,9], %w: i8[2,3,16,4]", "qdot %x, %w {size=[20]}", "i32[s0,20]"},
    {"%x: u8[s0,9], %w: i8[2,3,16,4]", "qdot %x, %w {size=[33]}", "!panels of w and size over 16: 2 and 3 differ"},
    {"%x: u8[s0,13], %w: i8[2,3,16,4]", "qdot %x, %w {size=[20]}", "!last dim of x over 4: 3 and 4 differ"},
    {"%x: i8[s0,9], %w: i8[2,3,16,4]", "qdot %x, %w {size=[20]}", "!of i8 and i8, wants u8 and i8"},
    /* types that are stated */
    {"%a: f32[]", "opaque aten.nonzero.default %a {reason=\"r\"}", "!opaque: result types are stated, not inferred"},
    {"%a: f32[]", "dyn loop %a", "!dyn: result types are stated, not inferred"},
    {"%a: f32[]", "call aten.relu.default %a", "!call: result types are stated, not inferred"},
    {"%a: f32[]", "fused %a {kind=\"k\"} {\n (%b: f32[])\n yield\n }", "!fused: result types are stated, not inferred"},
    {"", "const {data=\"00000000\"}", "!const: result types are stated, not inferred"},
};

static bool infer_row(const row *r) {
  char text[1024];
  world w;
  tn_type type[8];
  uint32_t n = 0;
  tn_str got;
  snprintf(text, sizeof text, "graph @t(%s) {\n  %%0: f32[] = %s\n  return\n}\n", r->inputs, r->node);
  world_open(&w, text);
  const tn_node *node = first_node(w.g);
  tn_status s = tn_ops_infer(&w.d, w.g, node->op, node->in, node->n_in, node->attr, node->n_attr, type, &n);
  tn_str_init(&got);
  if (s == TN_OK) {
    for (uint32_t i = 0; i < n; i++) {
      if (i) tn_str_put(&got, " ", 1);
      tn_type_print(w.dims, &type[i], &got);
    }
  } else {
    assert_int_equal(s, TN_E_ARG);
    tn_str_add(&got, "!%s", w.d.text);
  }
  assert_false(got.oom);
  bool ok = r->want[0] == '!' ? s != TN_OK && strstr(got.s, r->want + 1) : strcmp(got.s, r->want) == 0;
  if (!ok) {
    print_error("%s with %s\n got  %s\n want %s\n", r->node, r->inputs, got.s, r->want);
  }
  tn_str_deinit(&got);
  world_close(&w);
  return ok;
}
static void test_rows(void **state) {
  int bad = 0;
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) bad += !infer_row(&rows[i]);
  assert_int_equal(bad, 0);
}
/* No op without a form it takes and one it refuses (input is not written as a node). */
static void test_every_op_has_rows(void **state) {
  (void)state;
  for (int op = TN_N_SCALARS; op < TN_N_OPS; op++) {
    const char *name = tn_op_name((tn_op)op);
    size_t len = strlen(name);
    bool good = tn_op_cls((tn_op)op) == TN_CLS_STRUCT, bad = op == TN_OP_INPUT;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      if (strncmp(rows[i].node, name, len) != 0 || (rows[i].node[len] && rows[i].node[len] != ' ')) continue;
      if (rows[i].want[0] == '!')
        bad = true;
      else
        good = true;
    }
    if (!good || !bad) print_error("%s has no %s row\n", name, good ? "bad" : "good");
    assert_true(good && bad);
  }
}

/* Every scalar function with every dtype: accepted as scalar.def says, bool where it says so. */
static void test_scalars(void **state) {
  (void)state;
  for (int op = 0; op < TN_N_SCALARS; op++)
    for (int t = 0; t < TN_N_DTYPES; t++) {
      char inputs[128], node[64], want[64];
      const char *tn = tn_dtype_name((tn_dtype)t), *name = tn_scalar_name((tn_scalar_op)op);
      int arity = tn_scalar_arity((tn_scalar_op)op);
      if (arity == 3)
        snprintf(inputs, sizeof inputs, "%%a: bool[2,1], %%b: %s[s0,1,3], %%c: %s[]", tn, tn);
      else
        snprintf(inputs, sizeof inputs, "%%a: %s[2,1], %%b: %s[s0,1,3]", tn, tn);
      snprintf(node, sizeof node, "%s %s", name, arity == 3 ? "%a, %b, %c" : arity == 2 ? "%a, %b" : "%b");
      if (!tn_scalar_accepts((tn_scalar_op)op, (tn_dtype)t))
        snprintf(want, sizeof want, "!%s: does not take %s", name, tn);
      else
        snprintf(want, sizeof want, "%s[s0,%d,3]", tn_scalar_is_bool((tn_scalar_op)op) ? "bool" : tn, arity == 1 ? 1 : 2);
      assert_true(infer_row(&(row){inputs, node, want}));
      if (arity < 2 || want[0] == '!') continue;
      snprintf(inputs, sizeof inputs, "%%a: %s[s0], %%b: %s[s1], %%c: bool[]", tn, tn);
      snprintf(node, sizeof node, "%s %s%%a, %%b", name, arity == 3 ? "%c, " : "");
      assert_true(infer_row(&(row){inputs, node, "!dim 1 from the right: s0 and s1 do not broadcast"}));
      snprintf(inputs, sizeof inputs, "%%a: %s[], %%b: %s[], %%c: bool[]", tn, t == TN_F32 ? "f64" : "f32");
      assert_true(infer_row(&(row){inputs, node, arity == 3 ? "!operand 1 is " : "!operand 0 is "}));
    }
  assert_true(infer_row(&(row){"%a: i8[], %b: f32[]", "select %a, %b, %b", "!select: condition is i8, wants bool"}));
  assert_true(infer_row(&(row){"%b: f32[]", "add %b", "!add: 1 operands, takes 2 to 2"}));
}

/* The builder: types from the rule, first result handed out, nothing added on failure. */
static void test_add(void **state) {
  world w;
  tn_ref in, out = {0};
  (void)state;
  world_open(&w, "graph @t(%a: f32[s0,3]) {\n return\n}\n");
  in = w.g->input[0];
  tn_attr at[3] = {tn_mk_int("dim", 1), tn_mk_bool("descending", false), tn_mk_bool("stable", true)};
  assert_int_equal(tn_ops_add(&w.d, w.g, TN_OP_SORT, &in, 1, at, 3, 0, &out), TN_OK);
  assert_int_equal(tn_typeof(w.g, out)->dtype, TN_F32);
  assert_int_equal(tn_def(w.g, out)->n_out, 2);
  uint32_t n = w.g->n_nodes;
  assert_int_equal(tn_ops_add(&w.d, w.g, TN_OP_SORT, &in, 1, at, 1, 0, &out), TN_OK); /* booleans may be left out */
  at[0] = tn_mk_int("dim", 2);
  assert_int_equal(tn_ops_add(&w.d, w.g, TN_OP_SORT, &in, 1, at, 3, 0, &out), TN_E_ARG);
  assert_int_equal(w.g->n_nodes, n + 1);
  tn_ref none = {0};
  assert_int_equal(tn_ops_add(&w.d, w.g, TN_OP_NEG, &none, 1, NULL, 0, 0, &out), TN_E_ARG);
  HOLDS(w.d.text, "operand 0 is not a value");
  assert_int_equal(tn_ops_add(&w.d, w.g, TN_N_OPS, &in, 1, NULL, 0, 0, &out), TN_E_ARG);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_every_op_has_rows), cmocka_unit_test(test_scalars),
                                     cmocka_unit_test(test_add)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
