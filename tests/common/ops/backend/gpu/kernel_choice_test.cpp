// Covers: common/ops/backend/cpu/kernels.hpp, common/ops/backend/cpu/gemm.hpp
// Covers: common/ops/backend/backend.hpp
// The loops behind the backend are tested through the operations of common/ops.

#include "common/ops/backend/gpu/kernel_choice.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <string>

#include "common/ops/backend/backend.hpp"
#include "tests/common/ops/backend/gpu/device_backend.hpp"

namespace ultra::ops::gpu {
namespace {

class ChooseTest : public DeviceBackendTest {
 protected:
  [[nodiscard]] Tensor matrix(std::size_t rows, std::size_t columns, DType dtype) const {
    return Tensor::empty(cpu, {rows, columns}, dtype);
  }

  [[nodiscard]] MatmulWay product(const Hardware& hardware, DType factors, DType result,
                                  std::size_t rows, std::size_t columns, std::size_t depth,
                                  Transpose transpose_a = Transpose::kNo,
                                  Transpose transpose_b = Transpose::kYes) const {
    const auto factor = [&](std::size_t own, bool turns) {
      return turns ? matrix(depth, own, factors) : matrix(own, depth, factors);
    };
    return choose_matmul(
        hardware,
        {matrix(rows, columns, result), factor(rows, transpose_a == Transpose::kYes), transpose_a,
         factor(columns, transpose_b == Transpose::kNo), transpose_b, Write::kOverwrite});
  }

  [[nodiscard]] AttentionWay attention(const Hardware& hardware, DType dtype, DType result,
                                       std::size_t queries, std::size_t keys,
                                       std::size_t head_dim) const {
    return choose_attention(hardware, Tensor::empty(cpu, {1, queries, 4, head_dim}, dtype),
                            Tensor::empty(cpu, {1, keys, 2, head_dim}, dtype), result, options);
  }

  /// Positions first, first + 1, ... of queries and keys.
  void number(std::size_t queries, std::size_t keys, std::int32_t first) {
    query_positions.resize(queries);
    key_positions.resize(keys);
    std::iota(query_positions.begin(), query_positions.end(), first);
    std::iota(key_positions.begin(), key_positions.end(), first);
    options.query_positions = query_positions;
    options.key_positions = key_positions;
  }

  AttentionOptions options;
  std::vector<std::int32_t> query_positions;
  std::vector<std::int32_t> key_positions;
  Hardware emulated = {};
  Hardware ampere = {.has_vendor_products = true, .is_hopper = false};
  Hardware hopper = {.has_vendor_products = true, .is_hopper = true};
  Hardware bare_hopper = {.has_vendor_products = false, .is_hopper = true};
};

TEST_F(ChooseTest, ProductsAreTheVendorsWhereItIs) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    EXPECT_EQ(product(ampere, dtype, dtype, 1, 1, 1), MatmulWay::kVendor);
    EXPECT_EQ(product(hopper, dtype, dtype, 512, 512, 512), MatmulWay::kVendor);
    EXPECT_EQ(product(hopper, dtype, dtype, 512, 512, 0), MatmulWay::kPlain);
  }
}

TEST_F(ChooseTest, EachDeviceOfAProcessHasTheProductsThatItWasMadeFor) {
  const auto product_of = [&](const Device& on, const Hardware& hardware) {
    const Tensor matrix = Tensor::empty(on, {64, 64}, DType::kF32);
    return choose_matmul(
        hardware, {matrix, matrix, Transpose::kNo, matrix, Transpose::kYes, Write::kOverwrite});
  };
  const Device vendors = Device::create(DeviceKind::kCpu, 0, MatmulLibrary::kVendor);
  const Device ours = Device::create(DeviceKind::kEmulated, 1, MatmulLibrary::kOurs);
  for (const Device& any : {cpu, Device::create(DeviceKind::kEmulated)}) {
    EXPECT_EQ(product_of(vendors, ampere), MatmulWay::kVendor);
    EXPECT_EQ(product_of(ours, ampere), MatmulWay::kLadderF32);
    EXPECT_EQ(product_of(any, ampere), MatmulWay::kVendor) << "it is there";
    EXPECT_EQ(product_of(any, bare_hopper), MatmulWay::kLadderF32);
  }
}

TEST_F(ChooseTest, LaddersTakeWhatTheirTilesFit) {
  EXPECT_EQ(product(emulated, DType::kF32, DType::kF32, 64, 64, 1), MatmulWay::kLadderF32);
  EXPECT_EQ(product(emulated, DType::kF32, DType::kF32, 63, 64, 64), MatmulWay::kPlain);
  EXPECT_EQ(product(emulated, DType::kF64, DType::kF64, 128, 128, 64), MatmulWay::kPlain);
  EXPECT_EQ(product(emulated, DType::kBF16, DType::kBF16, 64, 65, 8), MatmulWay::kLadderBf16);
  EXPECT_EQ(product(emulated, DType::kBF16, DType::kBF16, 64, 65, 9), MatmulWay::kPlain);
  EXPECT_EQ(product(emulated, DType::kBF16, DType::kF32, 64, 64, 8), MatmulWay::kTurnedBf16);
  EXPECT_EQ(product(emulated, DType::kF16, DType::kF16, 64, 64, 8), MatmulWay::kPlain);
}

TEST_F(ChooseTest, ProductsOfABackwardPassAreMultipliedAsTheirFactorsLie) {
  const auto way = [&](DType result, Transpose a, Transpose b, std::size_t rows,
                       std::size_t columns, std::size_t depth) {
    return product(emulated, DType::kBF16, result, rows, columns, depth, a, b);
  };
  constexpr Transpose kNo = Transpose::kNo;
  constexpr Transpose kYes = Transpose::kYes;
  for (const DType result : {DType::kBF16, DType::kF32}) {
    EXPECT_EQ(way(result, kNo, kNo, 65, 64, 72), MatmulWay::kTurnedBf16) << "d_x";
    EXPECT_EQ(way(result, kYes, kNo, 72, 64, 65), MatmulWay::kTurnedBf16) << "d_weight";
  }
  EXPECT_EQ(way(DType::kF32, kYes, kNo, 65, 64, 72), MatmulWay::kPlain) << "ragged rows of a";
  EXPECT_EQ(way(DType::kF32, kYes, kYes, 64, 64, 64), MatmulWay::kPlain) << "nobody needs it";
  EXPECT_EQ(way(DType::kBF16, kYes, kNo, 65, 64, 72), MatmulWay::kLadderBf16) << "copies a";
  EXPECT_EQ(way(DType::kF64, kYes, kNo, 64, 64, 64), MatmulWay::kPlain);
}

TEST_F(ChooseTest, ProductsThatMayBeInFp8AreOnHopper) {
  const auto way = [&](const Hardware& hardware, const Shape& shape, const Shape& a, const Shape& b,
                       Transpose transpose_a = Transpose::kNo, DType result = DType::kBF16,
                       const Device& on = Device::cpu(),
                       std::optional<Fp8Factors> fp8 = Fp8Factors{}) {
    const Transpose transpose_b = shape[1] == b[0] ? Transpose::kYes : Transpose::kNo;
    return choose_matmul(
        hardware,
        {Tensor::empty(on, shape, result), Tensor::empty(on, a, DType::kBF16), transpose_a,
         Tensor::empty(on, b, DType::kBF16), transpose_b, Write::kOverwrite, fp8});
  };
  constexpr Transpose kNo = Transpose::kNo;
  for (const Hardware& any : {hopper, bare_hopper}) {
    EXPECT_EQ(way(any, {65, 72}, {65, 136}, {72, 136}), MatmulWay::kHopperFp8) << "y";
    EXPECT_EQ(way(any, {65, 72}, {65, 136}, {136, 72}), MatmulWay::kHopperFp8) << "d_x";
  }
  EXPECT_NE(way(bare_hopper, {65, 72}, {65, 136}, {72, 136}, kNo, DType::kBF16, cpu, std::nullopt),
            MatmulWay::kHopperFp8)
      << "nobody said so";
  EXPECT_EQ(way(ampere, {65, 72}, {65, 136}, {72, 136}), MatmulWay::kVendor);
  EXPECT_EQ(way(emulated, {65, 72}, {65, 136}, {72, 136}), MatmulWay::kLadderBf16);
  EXPECT_EQ(way(bare_hopper, {65, 72}, {65, 132}, {72, 132}), MatmulWay::kPlain) << "ragged rows";
  EXPECT_NE(way(bare_hopper, {65, 76}, {65, 136}, {136, 76}), MatmulWay::kHopperFp8);
  EXPECT_EQ(way(bare_hopper, {63, 72}, {63, 136}, {72, 136}), MatmulWay::kPlain) << "few rows";
  EXPECT_EQ(way(bare_hopper, {72, 72}, {136, 72}, {136, 72}, Transpose::kYes),
            MatmulWay::kTurnedBf16)
      << "d_weight, of tiles that cross its sums";
  EXPECT_EQ(way(bare_hopper, {72, 72}, {135, 72}, {135, 72}, Transpose::kYes, DType::kF32, cpu,
                Fp8Factors{.have_one_scale = true}),
            MatmulWay::kHopperFp8)
      << "d_weight";
  const Device vendors = Device::create(DeviceKind::kCpu, 0, MatmulLibrary::kVendor);
  const Device trees = Device::create(DeviceKind::kCpu, 0, MatmulLibrary::kTrees);
  EXPECT_EQ(way(hopper, {65, 72}, {65, 136}, {72, 136}, kNo, DType::kBF16, vendors),
            MatmulWay::kVendor);
  EXPECT_EQ(way(hopper, {65, 72}, {65, 136}, {72, 136}, kNo, DType::kBF16, trees),
            MatmulWay::kPlain);
}

TEST_F(ChooseTest, HoppersKernelsStoreWholeUnits) {
  const Tensor a = matrix(64, 64, DType::kBF16);
  const auto has_kernel = [&](const Hardware& hardware, std::size_t columns) {
    const Tensor out = matrix(64, columns, DType::kBF16);
    return has_hopper_kernel(hardware, {out, a, Transpose::kNo, matrix(columns, 64, DType::kBF16),
                                        Transpose::kYes, Write::kOverwrite});
  };
  EXPECT_TRUE(has_kernel(bare_hopper, 64));
  EXPECT_FALSE(has_kernel(bare_hopper, 65));
  EXPECT_FALSE(has_kernel(ampere, 64));
}

TEST_F(ChooseTest, AGpuBeforeTheA100HasTheGenericTilesAlone) {
  const Hardware turing = {.has_vendor_products = false, .is_hopper = false, .is_old = true};
  number(64, 64, 0);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    EXPECT_EQ(product(turing, dtype, dtype, 64, 64, 64), MatmulWay::kPlain);
    EXPECT_EQ(attention(turing, dtype, dtype, 64, 64, 64), AttentionWay::kPlain);
  }
}

TEST_F(ChooseTest, LaddersAddToContiguousResultsOnly) {
  const Tensor wide = matrix(64, 70, DType::kF32);
  const Tensor part = wide.slice(1, {0, 64});
  const Tensor a = matrix(64, 8, DType::kF32);
  const auto way = [&](const Tensor& out, Write write) {
    const Tensor b = matrix(out.size(1), 8, DType::kF32);
    return choose_matmul(emulated, {out, a, Transpose::kNo, b, Transpose::kYes, write});
  };
  EXPECT_EQ(way(part, Write::kOverwrite), MatmulWay::kLadderF32);
  EXPECT_EQ(way(part, Write::kAccumulate), MatmulWay::kPlain);
  EXPECT_EQ(way(wide, Write::kAccumulate), MatmulWay::kLadderF32);
}

TEST_F(ChooseTest, AttentionGoesByHeadsTypesAndLengths) {
  number(64, 64, 0);
  EXPECT_EQ(attention(emulated, DType::kF32, DType::kF32, 64, 64, 4), AttentionWay::kLadderF32);
  EXPECT_EQ(attention(emulated, DType::kF32, DType::kF32, 64, 64, 6), AttentionWay::kPlain);
  EXPECT_EQ(attention(emulated, DType::kF32, DType::kF32, 64, 64, 132), AttentionWay::kPlain);
  EXPECT_EQ(attention(emulated, DType::kF64, DType::kF64, 64, 64, 64), AttentionWay::kPlain);
  EXPECT_EQ(attention(emulated, DType::kBF16, DType::kBF16, 64, 64, 8), AttentionWay::kLadderHalf);
  EXPECT_EQ(attention(emulated, DType::kBF16, DType::kBF16, 64, 64, 12), AttentionWay::kPlain);
  EXPECT_EQ(attention(emulated, DType::kBF16, DType::kF32, 64, 64, 8), AttentionWay::kLadderHalf);
  EXPECT_EQ(attention(emulated, DType::kF16, DType::kF16, 64, 64, 8), AttentionWay::kLadderHalf);
  EXPECT_EQ(attention(emulated, DType::kF16, DType::kF32, 64, 64, 8), AttentionWay::kLadderHalf);
  EXPECT_EQ(attention(emulated, DType::kF16, DType::kBF16, 64, 64, 8), AttentionWay::kPlain);
  EXPECT_EQ(attention(hopper, DType::kF16, DType::kF16, 64, 64, 8), AttentionWay::kHopperHalf);
  EXPECT_EQ(attention(hopper, DType::kBF16, DType::kBF16, 64, 64, 8), AttentionWay::kHopperHalf);
  EXPECT_EQ(attention(hopper, DType::kF32, DType::kF32, 64, 64, 8), AttentionWay::kLadderF32);
  number(63, 63, 0);
  EXPECT_EQ(attention(emulated, DType::kF32, DType::kF32, 63, 63, 4), AttentionWay::kPlain);
}

TEST_F(ChooseTest, AttentionGoesByWhatQueriesSee) {
  const auto way = [&](std::size_t queries, std::size_t keys) {
    return attention(emulated, DType::kF32, DType::kF32, queries, keys, 64);
  };
  number(64, 64, 100);
  EXPECT_EQ(way(64, 64), AttentionWay::kLadderF32);
  query_positions.back() += 7;  // another place than the key's
  EXPECT_EQ(way(64, 64), AttentionWay::kPlain);
  key_positions.back() += 7;
  EXPECT_EQ(way(64, 64), AttentionWay::kLadderF32);
  query_positions[1] = key_positions[1] = 100;  // two at one place see each other
  EXPECT_EQ(way(64, 64), AttentionWay::kPlain);
  options.mask = Mask::kNone;
  EXPECT_EQ(way(64, 64), AttentionWay::kLadderF32);
  const std::vector<std::int32_t> documents(64, 0);
  options.first_seen = documents;
  EXPECT_EQ(way(64, 64), AttentionWay::kPlain);
  options.first_seen = {};
  number(64, 128, 0);
  EXPECT_EQ(way(64, 128), AttentionWay::kPlain);
}

TEST_F(ChooseTest, DocumentsHaveTilesOfTheirOwn) {
  constexpr std::size_t kSeq = 192;
  number(kSeq, kSeq, 100);
  std::vector<std::int32_t> first_seen(kSeq, 100);
  std::fill(first_seen.begin() + 70, first_seen.end(), 170);
  options.first_seen = first_seen;
  const auto way = [&](DType dtype, const Hardware& hardware) {
    return attention(hardware, dtype, dtype, kSeq, kSeq, 64);
  };
  EXPECT_EQ(begins_of_documents(options), (std::vector<std::int32_t>{0, 70, kSeq}));
  EXPECT_EQ(way(DType::kBF16, emulated), AttentionWay::kDocumentsBf16);
  EXPECT_EQ(way(DType::kBF16, hopper), AttentionWay::kDocumentsBf16);
  EXPECT_EQ(way(DType::kF32, emulated), AttentionWay::kPlain);
  options.mask = Mask::kNone;  // a token would see those of later documents
  EXPECT_EQ(way(DType::kBF16, emulated), AttentionWay::kPlain);
  options.mask = Mask::kCausal;
  for (std::size_t i = 0; i < kSeq; ++i)
    first_seen[i] = 100 + static_cast<std::int32_t>(i / 40 * 40);
  EXPECT_EQ(begins_of_documents(options).size(), 6U);
  EXPECT_EQ(way(DType::kBF16, emulated), AttentionWay::kPlain) << "short ones";
  for (std::size_t i = 0; i < kSeq; ++i)
    first_seen[i] = 100 + std::max(0, static_cast<int>(i) - 64);
  EXPECT_EQ(begins_of_documents(options), std::vector<std::int32_t>{}) << "a window is no document";
  EXPECT_EQ(way(DType::kBF16, emulated), AttentionWay::kPlain);
}

TEST_F(ChooseTest, DocumentsOfABatchLieBehindOneAnother) {
  number(4, 4, 0);
  const std::vector<std::int32_t> first_seen = {0, 0, 2, 2, 0, 1, 1, 3};
  options.first_seen = first_seen;
  EXPECT_EQ(begins_of_documents(options), (std::vector<std::int32_t>{0, 2, 4, 5, 7, 8}));
}

TEST_F(ChooseTest, WideAccessesNeedAlignedTensors) {
  const Tensor x = Tensor::empty(cpu, {1024}, DType::kF32);
  EXPECT_TRUE(ladder_fits_elements({x, x}));
  EXPECT_TRUE(ladder_fits_elements({x, x.slice(0, {4, 8})}));
  EXPECT_FALSE(ladder_fits_elements({x, x.slice(0, {1, 8})}));
  EXPECT_FALSE(ladder_fits_elements({x, Tensor::empty(cpu, {1024}, DType::kBF16)}));
  EXPECT_FALSE(ladder_fits_elements({x.slice(0, {0, 0})}));
  EXPECT_FALSE(ladder_fits_elements({x.view({32, 32}).transpose(0, 1)}));
}

TEST_F(ChooseTest, NormsGoByTypesLengthsAndRows) {
  const auto fits = [&](DType dtype, std::size_t rows, std::size_t hidden) {
    const Tensor x = Tensor::empty(cpu, {rows, hidden}, dtype);
    const Tensor weight = Tensor::empty(cpu, {hidden}, dtype);
    return std::pair(ladder_fits_rms_norm(x, x, weight),
                     ladder_fits_rms_norm_backward(x, x, x, weight));
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    EXPECT_EQ(fits(dtype, 64, 64), std::pair(true, true));
    EXPECT_EQ(fits(dtype, 63, 64), std::pair(false, false));
    EXPECT_EQ(fits(dtype, 2, 8193), std::pair(true, false));
    EXPECT_EQ(fits(dtype, 2, 16385), std::pair(false, false));
  }
  EXPECT_EQ(fits(DType::kF64, 64, 64), std::pair(false, false));
  EXPECT_EQ(fits(DType::kF16, 64, 64), std::pair(false, false));
}

TEST_F(ChooseTest, TheEmulatedDeviceHasItsKernelsAlone) {
  const Hardware hardware = hardware_of(Device::create(DeviceKind::kEmulated));
  EXPECT_FALSE(hardware.has_vendor_products);
  const char* const capability = std::getenv("ULTRA_EMULATED_CAPABILITY");
  EXPECT_EQ(hardware.is_hopper, capability != nullptr && std::string(capability) == "9");
}

}  // namespace
}  // namespace ultra::ops::gpu
