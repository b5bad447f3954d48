// All 2^32 numbers of f32, in every conversion from it.
#include <bit>

#include "chapters/10_mixed_precision/bf16_rounding.hpp"
#include "chapters/10_mixed_precision/formats/number_format.hpp"
#include "chapters/10_mixed_precision/fp8/scaled_grid.hpp"
#include "common/tensor/half_types.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr std::size_t kBatch = std::size_t{1} << 22U;

/// Calls visit(numbers) with all f32 numbers, a batch at a time.
template <class Visit>
void for_all_numbers(const Visit& visit) {
  std::vector<float> numbers(kBatch);
  for (std::uint64_t first = 0; first < std::uint64_t{1} << 32U; first += kBatch) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      numbers[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first + i));
    }
    visit(std::span<const float>(numbers));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(AllNumbers, Bf16AndFp16) {
  std::vector<BFloat16> bf16(kBatch);
  std::vector<Float16> fp16(kBatch);
  for_all_numbers([&](std::span<const float> numbers) {
    convert(numbers, std::span(bf16));
    convert(numbers, std::span(fp16));
    for (std::size_t i = 0; i < kBatch; ++i) {
      const float x = numbers[i];
      if (std::isnan(x)) continue;
      if (bf16[i].bits == bf16_from_f32(x) && fp16[i].bits == fp16_from_f32(x)) continue;
      FAIL() << "bits " << std::bit_cast<std::uint32_t>(x);
    }
  });
}

TEST(AllNumbers, Fp8) {
  const Device device = Device::cpu();
  const GridPart part{{0, 1}, {0, kBatch}, {1, kBatch, kPerTensor}};
  Tensor one = Tensor::empty(device, {1}, DType::kF32);
  one.fill(1.0);
  for_all_numbers([&](std::span<const float> numbers) {
    const Tensor x = Tensor::from<float>(device, {1, kBatch}, numbers);
    for (const Fp8 format : {Fp8::kE4m3, Fp8::kE5m2}) {
      const Tensor rounded = on_grid(x, part, one, format);
      const float* fast = rounded.data<float>();
      for (std::size_t i = 0; i < kBatch; ++i) {
        if (std::isnan(numbers[i])) continue;
        if (fast[i] == f32_from_fp8(format, fp8_from_f32(format, numbers[i]))) continue;
        FAIL() << to_string(format) << " bits " << std::bit_cast<std::uint32_t>(numbers[i]);
      }
    }
  });
}

}  // namespace
}  // namespace ultra::mixed_precision
