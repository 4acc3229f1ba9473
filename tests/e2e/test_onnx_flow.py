"""Control flow, lists and sizes that only values tell, in models of a few nodes, against onnx.reference (where that can't: by hand)."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
import tenon  # noqa: E402
from onnx import parser  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

f4, i8 = np.float32, np.int64


def model(text, opset=18):
    m = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')
    return m


def same(got, want):
    assert len(got) == len(want)
    for g, w in zip(got, want):
        if isinstance(w, (list, tuple)):
            same(g, w)
        elif w is None:
            assert g is None
        else:
            assert np.shape(g) == np.shape(w)
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


def check(m, *calls, want=None):
    """Each call is a dict of inputs; want: results by hand, for each call."""
    run = tenon.load(m)
    reference = ReferenceEvaluator(m) if want is None else None
    for k, feed in enumerate(calls):
        same(run(feed), reference.run(None, feed) if want is None else want[k])


def x(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(f4)


def test_loop_with_captures_and_scans():
    m = model("""g (float[N] x, float[N] w, int64 m) => (float[N] y, float[M,N] all) {
      t = Constant <value = bool {1}> ()
      y, all = Loop (m, t, x) <body = b (int64 i, bool c, float[N] v) => (bool c2, float[N] v2, float[N] s) {
        c2 = Identity (c)
        f = Cast <to = 1> (i)
        a = Mul (v, w)
        v2 = Add (a, f)
        s = Neg (v2)
      }>
    }""")
    check(m, *({"x": x(n), "w": x(n, seed=1), "m": np.array(k, i8)} for n, k in ((3, 4), (5, 1), (2, 0))),
          want=[by_hand(n, k) for n, k in ((3, 4), (5, 1), (2, 0))])


def by_hand(n, m):
    v, w, all_ = x(n), x(n, seed=1), []
    for i in range(m):
        v = (v * w + f4(i)).astype(f4)
        all_.append(-v)
    return [v, np.stack(all_) if all_ else np.zeros((0, n), f4)]


def test_loop_that_stops_itself_in_a_loop():
    """Collatz lengths of 1..m: a loop without a count in a loop with one."""
    m = model("""g (int64 m) => (int64[M] all) {
      t = Constant <value = bool {1}> ()
      one = Constant <value = int64 {1}> ()
      two = Constant <value = int64 {2}> ()
      three = Constant <value = int64 {3}> ()
      zero = Constant <value = int64 {0}> ()
      z, all = Loop (m, t, zero) <body = outer (int64 i, bool c, int64 v) => (bool c2, int64 v2, int64 steps) {
        c2 = Identity (c)
        v2 = Identity (v)
        start = Add (i, one)
        more = Greater (start, one)
        last, steps = Loop ("", more, start, zero) <body = inner (int64 k, bool go, int64 n, int64 count) => (bool go2, int64 n2, int64 count2) {
          half = Div (n, two)
          r = Mod (n, two)
          odd = Equal (r, one)
          p = Mul (n, three)
          up = Add (p, one)
          n2 = Where (odd, up, half)
          count2 = Add (count, one)
          go2 = Greater (n2, one)
        }>
      }>
    }""")

    def steps(n):
        k = 0
        while n > 1:
            n, k = (3 * n + 1 if n % 2 else n // 2), k + 1
        return k

    check(m, {"m": np.array(12, i8)}, want=[[np.array([steps(n) for n in range(1, 13)], i8)]])


def test_loop_carries_a_growing_value():
    m = model("""g (float[2] x, int64 m) => (float[N] y) {
      t = Constant <value = bool {1}> ()
      y = Loop (m, t, x) <body = b (int64 i, bool c, float[K] v) => (bool c2, float[L] v2) {
        c2 = Identity (c)
        v2 = Concat <axis = 0> (v, x)
      }>
    }""")
    check(m, *({"x": x(2), "m": np.array(k, i8)} for k in (0, 1, 5)), want=[[np.tile(x(2), k + 1)] for k in (0, 1, 5)])


def test_if_with_other_sizes_and_captures():
    m = model("""g (float[N,4] x, bool c) => (float[A,B] y, float[D] z) {
      s = Constant <value = int64[1] {2}> ()
      zero = Constant <value = int64[1] {0}> ()
      y = If (c) <then_branch = a () => (float[P,Q] p) { p = Transpose <perm = [1, 0]> (x) },
                  else_branch = b () => (float[P,Q] q) { q = Slice (x, zero, s) }>
      z = ReduceSum <keepdims = 0> (y, s1)
    }""".replace("z = ReduceSum", "s1 = Constant <value = int64[1] {1}> ()\n      z = ReduceSum"))
    check(m, *({"x": x(n, 4), "c": np.array(c)} for n in (3, 6) for c in (True, False)))


def test_if_in_if_in_loop():
    m = model("""g (float[N] x, int64 m) => (float[N] y) {
      t = Constant <value = bool {1}> ()
      two = Constant <value = int64 {2}> ()
      zero = Constant <value = int64 {0}> ()
      big = Constant <value = float {1.0}> ()
      y = Loop (m, t, x) <body = b (int64 i, bool c, float[N] v) => (bool c2, float[N] v2) {
        c2 = Identity (c)
        r = Mod (i, two)
        even = Equal (r, zero)
        v2 = If (even) <then_branch = a () => (float[N] p) {
          s = ReduceSum <keepdims = 0> (v)
          up = Greater (s, big)
          p = If (up) <then_branch = aa () => (float[N] pp) { pp = Sub (v, x) }, else_branch = ab () => (float[N] pq) { pq = Add (v, x) }>
        }, else_branch = e () => (float[N] q) { q = Mul (v, v) }>
      }>
    }""")

    def hand(n, k):
        v, w = x(n), x(n)
        for i in range(k):
            v = v * v if i % 2 else v - w if v.sum() > 1 else v + w
        return [v]

    check(m, *({"x": x(n), "m": np.array(k, i8)} for n, k in ((4, 3), (7, 4))), want=[hand(4, 3), hand(7, 4)])


@pytest.mark.parametrize("axis, back, out_axis, out_back", [(0, 0, 0, 0), (1, 0, 1, 0), (0, 1, 0, 0), (1, 1, 1, 1), (-1, 0, -1, 1)])
def test_scan_axes_and_directions(axis, back, out_axis, out_back):
    m = model(f"""g (float[A,B] x, float[K] s) => (float[K] y, float[C,D] all) {{
      y, all = Scan <num_scan_inputs = 1, scan_input_axes = [{axis}], scan_input_directions = [{back}], scan_output_axes = [{out_axis}],
                     scan_output_directions = [{out_back}], body = b (float[K] v, float[K] e) => (float[K] v2, float[K] o) {{
        v2 = Add (v, e)
        o = Identity (v2)
      }}> (s, x)
    }}""")
    for a, b in ((3, 5), (4, 2)):
        v = x(a, b)
        w = np.moveaxis(v, axis, 0)
        w = w[::-1] if back else w
        sums = np.cumsum(w, axis=0, dtype=f4)
        out = np.moveaxis(sums[::-1] if out_back else sums, 0, out_axis)
        check(m, {"x": v, "s": np.zeros(w.shape[1], f4)}, want=[[sums[-1], out]])


def test_lists():
    m = model("""g (float[N,4] x, float[4] z, int64 at) => (float[A,B] y, int64 n, float[P] item) {
      one = Constant <value = int64 {1}> ()
      l = SplitToSequence <axis = 0, keepdims = 0> (x)
      k = SequenceInsert (l, z, at)
      e = SequenceErase (k, one)
      n = SequenceLength (e)
      item = SequenceAt (e, at)
      y = ConcatFromSequence <axis = 1, new_axis = 1> (e)
    }""")
    check(m, *({"x": x(n, 4), "z": x(4, seed=9), "at": np.array(k, i8)} for n, k in ((3, 0), (5, 2), (2, -1))))


def test_list_as_input_and_output():
    m = model("""g (seq(float[N]) l, float[1] b) => (seq(float[N]) y) {
      y = SequenceMap (l, b) <body = f (float[N] v, float[1] w) => (float[M] r) { s = Mul (v, w) r = Concat <axis = 0> (s, w) }>
    }""")
    check(m, {"l": [x(3), x(1), x(5)], "b": x(1, seed=2)}, {"l": [x(2)], "b": x(1)})


def test_list_built_in_a_loop():
    m = model("""g (float[N,3] x, int64 m) => (float[A,B] y, int64 n) {
      t = Constant <value = bool {1}> ()
      empty = SequenceEmpty <dtype = 1> ()
      l = Loop (m, t, empty) <body = b (int64 i, bool c, seq(float[P,3]) s) => (bool c2, seq(float[P,3]) s2) {
        c2 = Identity (c)
        f = Cast <to = 1> (i)
        v = Add (x, f)
        s2 = SequenceInsert (s, v)
      }>
      n = SequenceLength (l)
      y = ConcatFromSequence <axis = 0> (l)
    }""")
    check(m, *({"x": x(n, 3), "m": np.array(k, i8)} for n, k in ((2, 3), (1, 1))),
          want=[[np.concatenate([x(n, 3) + f4(i) for i in range(k)]), np.array(k, i8)] for n, k in ((2, 3), (1, 1))])


def test_computed_shapes():
    m = model("""g (float[N,6] x, int64[2] shape, int64[1] from, int64[1] to) => (float[A,B] y, float[C,D] z, int64[2,K] nz) {
      y = Reshape (x, shape)
      z = Slice (x, from, to)
      p = Relu (z)
      nz = NonZero (p)
    }""")
    for n, shape, a, b in ((2, (3, 4), 0, 1), (4, (-1, 8), -3, 9), (3, (0, 6), 1, -1), (2, (-1, 3), 2, 0)):
        check(m, {"x": x(n, 6), "shape": np.array(shape, i8), "from": np.array([a], i8), "to": np.array([b], i8)})


def test_rank_that_the_run_decides():
    """A squeezed batch: as a Squeeze without axes, and as the If that exporters write for it."""
    plain = model("""g (float[N,3,1] x) => (y) { a = Squeeze (x) y = Exp (a) }""".replace("(y)", "(float y)"))
    del plain.graph.output[0].type.tensor_type.shape.dim[:]
    plain.graph.output[0].type.tensor_type.ClearField("shape")
    written = model("""g (float[N,3] x) => (float y) {
      one = Constant <value = int64[1] {1}> ()
      zero = Constant <value = int64[1] {0}> ()
      s = Shape <start = 0, end = 1> (x)
      c = Equal (s, one)
      a = If (c) <then_branch = t () => (float[3] p) { p = Squeeze (x, zero) }, else_branch = e () => (float[N,3] q) { q = Identity (x) }>
      y = Exp (a)
    }""")
    written.graph.output[0].type.tensor_type.ClearField("shape")
    check(plain, {"x": x(1, 3, 1)}, {"x": x(4, 3, 1)})
    check(written, {"x": x(1, 3)}, {"x": x(4, 3)})


def test_sizes_assumed_equal_are_checked():
    m = model("g (float[N,3] x, float[M,3] z) => (float[N,3] y) { y = Add (x, z) }")
    run = tenon.load(m)
    same(run({"x": x(4, 3), "z": x(4, 3, seed=1)}), [x(4, 3) + x(4, 3, seed=1)])
    with pytest.raises(tenon.ModelError, match="equal"):
        run({"x": x(4, 3), "z": x(5, 3)})


def test_functions_with_attributes():
    m = model("""g (float[N] x) => (float[N] y) { a = my.scaled <by = 3.0> (x) y = my.scaled (a) }
    <domain: "my", opset_import: ["" : 18]> scaled <by: float = 2.0> (v) => (w) { k = Constant <value_float: float = @by> () w = Mul (v, k) }
    """)
    m.opset_import.add(domain="my", version=1)
    check(m, {"x": x(5)}, want=[[x(5) * f4(3) * f4(2)]])


def test_if_of_which_one_branch_fits_no_such_input():
    """Exporters leave branches for other inputs in a model (another sampling rate): they cost nothing until a run asks for them."""
    m = model("""g (bool c, float[2,3] x) => (float[A,B] y) {
      y = If (c) <then_branch = t () => (float[A,B] a) { a = Relu (x) },
                  else_branch = e () => (float[A,B] b) { w = Constant <value = float[5,5] {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> ()
                                                         b = MatMul (x, w) }>
    }""")
    run = tenon.load(m)
    v = x(2, 3)
    same(run({"c": np.array(True), "x": v}), [np.maximum(v, 0)])
    with pytest.raises(tenon.ModelError, match="the else branch of .* is asked for, which was not compiled"):
        run({"c": np.array(False), "x": v})
    with pytest.raises(tenon.ModelError, match="contract"):  # none of them
        tenon.load(model("""g (bool c, float[2,3] x) => (float[A,B] y) {
          w = Constant <value = float[2,2] {1,1,1,1}> ()
          y = If (c) <then_branch = t () => (float[A,B] a) { a = MatMul (x, w) }, else_branch = e () => (float[A,B] b) { b = MatMul (x, w) }>
        }"""))


def test_sizes_named_question_mark_and_names_that_are_no_input():
    m = onnx.helper.make_model(onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["?", "?"])], [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]))
    v = x(2, 3)
    same(tenon.load(m)({"x": v, "other": v}), [np.maximum(v, 0)])
    with pytest.raises(ValueError, match="inputs \\['x'\\] are missing; no input is named \\['z'\\]"):
        tenon.load(m)({"z": v})


@pytest.mark.parametrize("text, feeds, bad", [
    ("g (float[3] x, int64[1] s) => (float[A] y) { y = Expand (x, s) }", [(3, [1]), (3, [3])], [(3, [5])]),
    ("g (float[N] x, int64[1] s) => (float[A] y) { y = Expand (x, s) }", [(1, [4]), (4, [4]), (4, [1]), (0, [1])], [(4, [5]), (3, [0])]),
    ("g (float[N] x, int64[2] s) => (float[A] y, float[B] z) { y, z = Split <axis = 0> (x, s) }", [(5, [2, 3]), (5, [5, 0])], [(5, [2, 4]), (5, [9, 1]), (5, [100, -95])]),
    ("g (float[N] x, int64[2] s) => (float[A] y) { y, z = Split <axis = 0> (x, s) }", [(5, [2, 3])], [(5, [9, 1])])])
def test_sizes_from_values_are_checked(text, feeds, bad):
    """Also where a result is an operand as it is, or a part whose siblings nobody reads."""
    m = model(text)
    check(m, *({"x": x(n), "s": np.array(s, i8)} for n, s in feeds))
    run = tenon.load(m)
    for n, s in bad:
        with pytest.raises(tenon.ModelError):
            run({"x": x(n), "s": np.array(s, i8)})
