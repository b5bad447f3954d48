#include "chapters/09_kernels/report/ceiling.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "common/base/units.hpp"
#include "kernels/device/device_traffic.hpp"
#include "kernels/device/vendor_matmul.hpp"

namespace ultra::ladders {
namespace {

using kernels::DeviceTraffic;
using kernels::VendorMatmul;

class TrafficCeiling final : public Ceiling {
 public:
  explicit TrafficCeiling(const Cost& cost)
      : cost_(cost),
        traffic_(static_cast<std::size_t>(read_bytes()),
                 static_cast<std::size_t>(cost.written_bytes)) {}

  std::string name() const override {
    return fmt::format("a kernel that reads {} and writes {}",
                       format_bytes(static_cast<std::uint64_t>(read_bytes())),
                       format_bytes(static_cast<std::uint64_t>(cost_.written_bytes)));
  }
  double work() const override { return cost_.least_bytes; }
  void launch() override { traffic_.launch(); }

 private:
  [[nodiscard]] double read_bytes() const { return cost_.least_bytes - cost_.written_bytes; }

  Cost cost_;
  DeviceTraffic traffic_;
};

class ProductCeiling final : public Ceiling {
 public:
  ProductCeiling(Limit limit, const Sizes& sizes)
      : limit_(limit),
        sizes_(sizes),
        product_(sizes[0], sizes[1], sizes[2],
                 limit == Limit::kFp32 ? kernels::VendorAccuracy::kFp32
                                       : kernels::VendorAccuracy::kBf16) {}

  std::string name() const override {
    return limit_ == Limit::kFp32
               ? fmt::format("cuBLAS fp32 ({}) {}", product_.way(), fmt::join(sizes_, "x"))
               : fmt::format("cuBLAS bf16 {}", fmt::join(sizes_, "x"));
  }
  double work() const override { return 2.0 * sizes_[0] * sizes_[1] * sizes_[2]; }
  void launch() override { product_.launch(); }

 private:
  Limit limit_;
  Sizes sizes_;
  VendorMatmul product_;
};

bool is_product(const LadderInfo& ladder) {
  static constexpr const char* kNames[] = {"rows", "columns", "depth"};
  return std::ranges::equal(ladder.dimensions, kNames, std::equal_to<>(), &Dimension::name);
}

}  // namespace

RateUnit rate_unit(Limit limit) {
  return limit == Limit::kMemory ? RateUnit{.name = "GB/s", .scale = 1e9}
                                 : RateUnit{.name = "TFLOP/s", .scale = 1e12};
}

double limited_work(Limit limit, const Cost& cost) {
  return limit == Limit::kMemory ? cost.least_bytes : cost.operations;
}

Sizes product_sizes(const LadderInfo& ladder, const Sizes& sizes, const Cost& cost) {
  if (is_product(ladder)) {
    return sizes;
  }
  constexpr double kLargest = 8192;
  constexpr double kMultiple = 128;  // cuBLAS's own tiles divide it
  const double side = std::min(std::cbrt(cost.operations / 2), kLargest);
  return Sizes(3, static_cast<int>(std::max(std::round(side / kMultiple), 1.0) * kMultiple));
}

std::unique_ptr<Ceiling> make_ceiling(const LadderInfo& ladder, const Sizes& sizes,
                                      const Cost& cost, std::string& why_not) {
  if (ladder.limit == Limit::kMemory) {
    return std::make_unique<TrafficCeiling>(cost);
  }
  why_not = VendorMatmul::why_missing();
  if (!why_not.empty()) {
    return nullptr;
  }
  return std::make_unique<ProductCeiling>(ladder.limit, product_sizes(ladder, sizes, cost));
}

}  // namespace ultra::ladders
