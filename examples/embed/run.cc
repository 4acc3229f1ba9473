// Runs a package from C++:  run_cc MODEL.tnp [N]
//
// The same interface as run.c; handles get owners, errors become exceptions. For models whose inputs are float32 tensors; free dims are N.
//   c++ -std=c++17 run.cc -I ../../include -L ../../build -ltenon_rt -o run_cc
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include "tenon/model.h"

namespace {

struct Release {
  void operator()(tn_model *m) const { tn_model_release(m); }
  void operator()(tn_session *s) const { tn_session_destroy(s); }
  void operator()(tn_value *v) const { tn_value_release(v); }
};
using Model = std::unique_ptr<tn_model, Release>;
using Session = std::unique_ptr<tn_session, Release>;
using Value = std::unique_ptr<tn_value, Release>;

Model open(const char *path) {
  char why[512];
  tn_model *m = nullptr;
  if (tn_model_open(path, nullptr, &m, why, sizeof why) != TN_OK) throw std::runtime_error(why);
  return Model(m);
}

Session session_of(const Model &m) {
  tn_session *s = nullptr;
  if (tn_session_create(m.get(), nullptr, &s) != TN_OK) throw std::bad_alloc();
  return Session(s);
}

std::vector<Value> run(const Session &s, const std::vector<Value> &in, std::size_t n_out) {
  std::vector<tn_value *> raw_in, raw_out(n_out, nullptr);
  for (const Value &v : in) raw_in.push_back(v.get());
  if (tn_session_run(s.get(), raw_in.data(), raw_out.data()) != TN_OK) throw std::runtime_error(tn_session_error(s.get()));
  std::vector<Value> out;
  for (tn_value *v : raw_out) out.emplace_back(v);
  return out;
}

std::string text(const std::int64_t *dim, int rank) {
  std::string s;
  for (int k = 0; k < rank; k++) s += (k ? "x" : "") + std::to_string(dim[k]);
  return s;
}

}  // namespace

int main(int argc, char **argv) try {
  if (argc < 2) return std::fprintf(stderr, "usage: run_cc MODEL.tnp [size of free dims]\n"), 2;
  const Model model = open(argv[1]);
  const Session session = session_of(model);
  std::vector<std::vector<float>> data;  // borrowed by the values: it has to outlive them
  std::vector<Value> in;
  for (std::uint32_t i = 0; i < tn_model_n_in(model.get()); i++) {
    tn_port p;
    tn_model_in(model.get(), i, &p);
    if (p.kind != 0 || p.elem != 1 || p.rank < 0) throw std::runtime_error(std::string("input ") + p.name + " is no float32 tensor of known rank");
    std::vector<std::int64_t> shape(p.dim, p.dim + p.rank);
    std::size_t n = 1;
    for (std::int64_t &d : shape) {
      if (d < 0) d = argc > 2 ? std::atoll(argv[2]) : 1;
      n *= static_cast<std::size_t>(d);
    }
    data.emplace_back(n);
    for (std::size_t k = 0; k < n; k++) data.back()[k] = static_cast<float>(k % 7) / 8 - 0.25f;
    const tn_tensor t = {data.back().data(), shape.data(), nullptr, p.rank, TN_F32};
    in.emplace_back(tn_value_borrow(&t, 0));
    if (!in.back()) throw std::bad_alloc();
    std::printf("in  %-12s %s\n", p.name, text(shape.data(), p.rank).c_str());
  }
  const std::vector<Value> out = run(session, in, tn_model_n_out(model.get()));
  for (std::size_t i = 0; i < out.size(); i++) {
    tn_port p;
    tn_model_out(model.get(), static_cast<std::uint32_t>(i), &p);
    const tn_tensor *t = tn_value_tensor(out[i].get());
    std::printf("out %-12s %s", p.name, t ? text(t->shape, t->rank).c_str() : "no tensor");
    for (std::size_t k = 0; t && t->data && t->dtype == TN_F32 && k < tn_value_n(out[i].get()) && k < 4 && (t->rank == 0 || static_cast<std::int64_t>(k) < t->shape[t->rank - 1]); k++)
      std::printf(" %g", static_cast<double>(static_cast<const float *>(t->data)[t->rank ? static_cast<std::int64_t>(k) * t->strides[t->rank - 1] : 0]));
    std::printf("\n");
  }
  return 0;
} catch (const std::exception &e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
