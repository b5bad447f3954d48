#include "common/ops/backend/cpu/half/half_ops.hpp"
#include "common/ops/backend/cpu/half/stored_numbers.hpp"
#include "common/ops/backend/cpu/kernels.hpp"

namespace ultra::ops::cpu::half {

void add(const Tensor& out, const Tensor& a, const Tensor& b) {
  const StoredNumbers sums(out);
  const StoredNumbers first(a);
  const StoredNumbers second(b);
  TileBuffer sum;
  TileBuffer x;
  TileBuffer y;
  for_each_tile(out.numel(), [&](std::size_t begin, std::size_t count) {
    float* room = sums.room(begin, sum.data());
    cpu::add(count, first.read(begin, count, x.data()), second.read(begin, count, y.data()), room);
    sums.store(begin, count, room);
  });
}

void scale(const Tensor& a, float factor) {
  const StoredNumbers numbers(a);
  TileBuffer tile;
  for_each_tile(a.numel(), [&](std::size_t begin, std::size_t count) {
    float* scaled = numbers.update(begin, count, tile.data());
    cpu::scale(count, factor, scaled);
    numbers.store(begin, count, scaled);
  });
}

double sum_of_squares(const Tensor& x) {
  const StoredNumbers numbers(x);
  TileBuffer tile;
  double sum = 0;
  for_each_tile(x.numel(), [&](std::size_t begin, std::size_t count) {
    sum += cpu::sum_of_squares(count, numbers.read(begin, count, tile.data()));
  });
  return sum;
}

void swiglu(const Tensor& product, const Tensor& gate, const Tensor& up) {
  const StoredNumbers products(product);
  const StoredNumbers gates(gate);
  const StoredNumbers ups(up);
  TileBuffer p;
  TileBuffer g;
  TileBuffer u;
  for_each_tile(gate.numel(), [&](std::size_t begin, std::size_t count) {
    float* room = products.room(begin, p.data());
    cpu::swiglu(count, gates.read(begin, count, g.data()), ups.read(begin, count, u.data()), room);
    products.store(begin, count, room);
  });
}

void swiglu_backward(const Tensor& d_gate, const Tensor& d_up, const Tensor& d_product,
                     const Tensor& gate, const Tensor& up) {
  const StoredNumbers d_products(d_product);
  const StoredNumbers gates(gate);
  const StoredNumbers ups(up);
  const StoredNumbers d_gates(d_gate);
  const StoredNumbers d_ups(d_up);
  TileBuffer dp;
  TileBuffer g;
  TileBuffer u;
  TileBuffer dg;
  TileBuffer du;
  for_each_tile(gate.numel(), [&](std::size_t begin, std::size_t count) {
    float* gate_room = d_gates.room(begin, dg.data());
    float* up_room = d_ups.room(begin, du.data());
    cpu::swiglu_backward(count, d_products.read(begin, count, dp.data()),
                         gates.read(begin, count, g.data()), ups.read(begin, count, u.data()),
                         gate_room, up_room);
    d_gates.store(begin, count, gate_room);
    d_ups.store(begin, count, up_room);
  });
}

void adamw(const Tensor& value, const Tensor& grad, const Tensor& first_moment,
           const Tensor& second_moment, const AdamWStep& constants) {
  const StoredNumbers values(value);
  const StoredNumbers grads(grad);
  const StoredNumbers firsts(first_moment);
  const StoredNumbers seconds(second_moment);
  TileBuffer w;
  TileBuffer g;
  TileBuffer m;
  TileBuffer v;
  for_each_tile(value.numel(), [&](std::size_t begin, std::size_t count) {
    float* weight = values.update(begin, count, w.data());
    float* first = firsts.update(begin, count, m.data());
    float* second = seconds.update(begin, count, v.data());
    cpu::adamw(count, constants, weight, grads.read(begin, count, g.data()), first, second);
    values.store(begin, count, weight);
    firsts.store(begin, count, first);
    seconds.store(begin, count, second);
  });
}

}  // namespace ultra::ops::cpu::half
