/// Operations that work on whole rows: a row is converted, worked on in f32 and rounded.

#include "common/ops/backend/cpu/half/half_ops.hpp"
#include "common/ops/backend/cpu/half/stored_numbers.hpp"
#include "common/ops/backend/cpu/kernels.hpp"

namespace ultra::ops::cpu::half {
namespace {

/// Room for one row in f32.
class RowBuffer {
 public:
  RowBuffer(const Device& device, std::size_t count)
      : numbers_(Tensor::empty(device, {count}, DType::kF32)) {}
  [[nodiscard]] float* data() const { return numbers_.data<float>(); }

 private:
  Tensor numbers_;
};

}  // namespace

void rms_norm(const Tensor& y, const Tensor& reciprocal_rms, const Tensor& x, const Tensor& weight,
              double epsilon) {
  const std::size_t hidden = x.size(-1);
  const StoredNumbers inputs(x);
  const StoredNumbers outputs(y);
  const Tensor wide_weight = cast(weight, DType::kF32);
  const RowBuffer in(x.device(), hidden);
  const RowBuffer out(x.device(), hidden);
  float* rms = reciprocal_rms.data<float>();
  for (std::size_t row = 0; row < reciprocal_rms.numel(); ++row) {
    float* room = outputs.room(row * hidden, out.data());
    cpu::rms_norm(1, hidden, inputs.read(row * hidden, hidden, in.data()),
                  wide_weight.span<float>().data(), static_cast<float>(epsilon), room, rms + row);
    outputs.store(row * hidden, hidden, room);
  }
}

void rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, const Tensor& d_y,
                       const Tensor& x, const Tensor& weight, const Tensor& reciprocal_rms) {
  const std::size_t hidden = x.size(-1);
  const StoredNumbers inputs(x);
  const StoredNumbers d_inputs(d_x);
  const StoredNumbers d_outputs(d_y);
  const Tensor wide_weight = cast(weight, DType::kF32);
  const Tensor wide_d_weight = cast(d_weight, DType::kF32);
  const RowBuffer in(x.device(), hidden);
  const RowBuffer d_in(x.device(), hidden);
  const RowBuffer d_out(x.device(), hidden);
  const float* rms = reciprocal_rms.span<float>().data();
  for (std::size_t row = 0; row < reciprocal_rms.numel(); ++row) {
    const std::size_t begin = row * hidden;
    float* room = d_inputs.room(begin, d_in.data());
    cpu::rms_norm_backward(1, hidden, d_outputs.read(begin, hidden, d_out.data()),
                           inputs.read(begin, hidden, in.data()),
                           static_cast<const float*>(wide_weight.span<float>().data()), rms + row,
                           room, wide_d_weight.span<float>().data());
    d_inputs.store(begin, hidden, room);
  }
  if (!wide_d_weight.shares_storage(d_weight)) cast_into(d_weight, wide_d_weight);
}

void rope(const Tensor& x, const RopeTable& table, std::span<const std::int32_t> positions,
          Rotation rotation) {
  const std::size_t heads = x.size(2);
  const std::size_t row = heads * x.size(3);
  const StoredNumbers numbers(x);
  const RowBuffer buffer(x.device(), row);
  const float* cosines = table.cosines().span<float>().data();
  const float* sines = table.sines().span<float>().data();
  const float sign = rotation == Rotation::kForward ? 1.0F : -1.0F;
  std::size_t begin = 0;
  for (std::size_t b = 0; b < x.size(0); ++b) {
    for (const std::int32_t& position : positions) {
      float* turned = numbers.update(begin, row, buffer.data());
      cpu::rope(1, heads, x.size(3) / 2, std::span(&position, 1), cosines, sines, sign, turned);
      numbers.store(begin, row, turned);
      begin += row;
    }
  }
}

double cross_entropy(const Tensor& logits, const Tensor& targets, double normalizer,
                     double z_loss) {
  const std::size_t vocab = logits.size(-1);
  const StoredNumbers numbers(logits);
  const RowBuffer buffer(logits.device(), vocab);
  const std::int32_t* target = targets.data<std::int32_t>();
  double loss = 0;
  for (std::size_t row = 0; row < targets.numel(); ++row) {
    float* gradient = numbers.update(row * vocab, vocab, buffer.data());
    loss += cpu::cross_entropy(1, vocab, gradient, target + row, normalizer, z_loss);
    numbers.store(row * vocab, vocab, gradient);
  }
  return loss;
}

void add_row(const Tensor& to, std::size_t to_row, const Tensor& from, std::size_t from_row) {
  const std::size_t columns = to.size(-1);
  const StoredNumbers sums(to);
  const StoredNumbers terms(from);
  TileBuffer sum;
  TileBuffer term;
  for_each_tile(columns, [&](std::size_t begin, std::size_t count) {
    float* room = sums.update(to_row * columns + begin, count, sum.data());
    cpu::add(count, static_cast<const float*>(room),
             terms.read(from_row * columns + begin, count, term.data()), room);
    sums.store(to_row * columns + begin, count, room);
  });
}

}  // namespace ultra::ops::cpu::half
