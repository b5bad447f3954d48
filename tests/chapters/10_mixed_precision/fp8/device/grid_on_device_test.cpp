#include "chapters/10_mixed_precision/fp8/device/grid_on_device.hpp"

#include "chapters/10_mixed_precision/delayed_scaling.hpp"
#include "common/gpu/streams.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

/// Every function on a device with streams and on the CPU: the same bits, for parts of any matrix.
class GridOnDevice : public ultra::test::RandomTest {
 protected:
  static DeviceKind kind() {
    const DeviceKind of_tests = test::device_kind_of_tests();
    return has_streams(of_tests) ? of_tests : DeviceKind::kEmulated;
  }

  GridPart any_part() {
    const TileGrid matrix{random.between(1, 300), random.between(1, 300),
                          random.pick({kPerTensor, kActivationTile, kWeightTile})};
    const std::size_t row = random.between(0, matrix.rows - 1);
    const std::size_t column = random.between(0, matrix.columns - 1);
    return {{row, random.between(row + 1, matrix.rows)},
            {column, random.between(column + 1, matrix.columns)},
            matrix};
  }

  /// Numbers over the whole range, with what has no order or no end.
  Tensor numbers(const GridPart& part, DType dtype) {
    const Shape shape{part.rows.size(), part.columns.size()};
    std::vector<double> values = random.tensor(cpu, shape, DType::kF64).to_vector();
    for (double& value : values) {
      value = std::ldexp(value, static_cast<int>(random.between(0, 40)) - 30);
    }
    values[random.between(0, values.size() - 1)] =
        random.pick({1.0, 0.0, std::numeric_limits<double>::quiet_NaN(),
                     std::numeric_limits<double>::infinity()});
    return Tensor::from<double>(cpu, shape, values).to(dtype);
  }

  Device cpu = Device::cpu();
  Device there = Device::create(kind());
};

/// By their bits, in which two NaN may differ.
void expect_same(const Tensor& found, const Tensor& expected) {
  const std::vector<double> a = found.to_vector();
  const std::vector<double> b = expected.to_vector();
  ASSERT_EQ(found.dtype(), expected.dtype());
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i])) {
      ASSERT_TRUE(std::isnan(a[i])) << i;
    } else {
      ASSERT_EQ(a[i], b[i]) << i;
      ASSERT_EQ(std::signbit(a[i]), std::signbit(b[i])) << i;
    }
  }
}

TEST_F(GridOnDevice, HasTheCpusBitsAndWaitsForNobody) {
  for (int round = 0; round < 12; ++round) {
    const Fp8 format = random.pick({Fp8::kE4m3, Fp8::kE5m2});
    const DType dtype = random.pick({DType::kF32, DType::kF64, DType::kBF16});
    const int margin = static_cast<int>(random.between(0, 2));
    const GridPart part = any_part();
    const Tensor x = numbers(part, dtype);
    const Tensor x_there = x.to(there);
    SCOPED_TRACE(fmt::format("{} {} of {}", to_string(dtype), x.shape().str(), to_string(format)));

    const Tensor amax = amax_of(x, part);
    const std::uint64_t waits = there.streams().synchronizations();
    const Tensor amax_there = amax_of(x_there, part);
    const Tensor scales_there = amax_there.clone();
    scales_from_amax(scales_there, format, margin);
    const Tensor grid_there = on_grid(x_there, part, scales_there, format);
    const Tensor codes_there = pack_codes(grid_there, part, scales_there, format);
    const Tensor back_there = unpack_codes(codes_there, part, scales_there, format, dtype);
    EXPECT_EQ(there.streams().synchronizations(), waits);

    expect_same(amax_there, amax);
    const Tensor scales = amax.clone();
    scales_from_amax(scales, format, margin);
    expect_same(scales_there, scales);
    const Tensor grid = on_grid(x, part, scales, format);
    expect_same(grid_there, grid);
    const Tensor codes = pack_codes(grid, part, scales, format);
    expect_same(codes_there, codes);
    expect_same(back_there, unpack_codes(codes, part, scales, format, dtype));
  }
}

TEST_F(GridOnDevice, DelayedScalesAreThoseOfTheHistory) {
  for (const bool notes : {false, true}) {
    std::vector<float> history;
    for (int i = 0; i < 5; ++i) history.push_back(static_cast<float>(random.uniform(0.0, 500.0)));
    const Tensor history_there = Tensor::from<float>(there, {history.size()}, history);
    const float own = static_cast<float>(random.uniform(0.0, 500.0));
    const Tensor amax = Tensor::from<float>(there, {1}, std::vector{own});
    on_device::delayed_scale(amax, history_there, Fp8::kE5m2, 1, notes);
    if (notes) note_amax(history, own);
    EXPECT_EQ(amax.to_vector().front(), delayed_scale(history, Fp8::kE5m2, 1));
    EXPECT_EQ(history_there.to_vector(), std::vector<double>(history.begin(), history.end()));
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
