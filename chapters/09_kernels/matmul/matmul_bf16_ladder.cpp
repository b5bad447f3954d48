#include "chapters/09_kernels/matmul/matmul_bf16_ladder.hpp"

#include <fmt/format.h>

#include <cmath>

#include "chapters/09_kernels/bf16_values.hpp"
#include "chapters/09_kernels/ladder_of.hpp"
#include "chapters/09_kernels/random_values.hpp"
#include "kernels/device/device_info.hpp"
#include "kernels/matmul_bf16/matmul_bf16.hpp"
#include "kernels/simt/buffer.hpp"

namespace ultra::ladders {
namespace {

namespace rungs_of = kernels::matmul_bf16;
using simt::bf16;

double value_of(bf16 value) { return double{static_cast<float>(value)}; }

// The copies of 16 bytes need rows that begin at multiples of 16 bytes.
std::string refuse_ragged_depth(const Sizes& sizes) {
  if (sizes[2] % 8 == 0) {
    return {};
  }
  return fmt::format(
      "the depth is {}, expected a multiple of 8: rows of a and b must begin at multiples of 16 "
      "bytes. Hint: rungs 1 to 4 take any depth",
      sizes[2]);
}

// TMA needs that of c, too, and a GPU that has it.
std::string refuse_for_hopper(const Sizes& sizes) {
  if (sizes[1] % 8 != 0 || sizes[2] % 8 != 0) {
    return fmt::format(
        "columns x depth are {} x {}, expected multiples of 8: TMA's rows begin at multiples of 16 "
        "bytes. Hint: rungs 1 to 4 take any shape",
        sizes[1], sizes[2]);
  }
  const std::vector<kernels::DeviceInfo> devices = kernels::list_devices();
  if (!devices.empty() &&
      (devices[0].compute_capability_major != 9 || devices[0].compute_capability_minor != 0)) {
    return fmt::format(
        "{} has compute capability {}.{}, expected 9.0 (H100, H200): wgmma exists nowhere else. "
        "Hint: rungs 1 to 6 run on any GPU since the A100",
        devices[0].name, devices[0].compute_capability_major, devices[0].compute_capability_minor);
  }
  return {};
}

class MatmulBf16 {
 public:
  using Problem = rungs_of::Problem;

  template <simt::Side side>
  class Buffers {
   public:
    explicit Buffers(const MatmulBf16& work)
        : work_(work),
          a_("a", work.a_),
          b_("b", work.b_),
          c_("c", to_bf16(poison(work.c_size()))) {}

    Problem problem() {
      return {.rows = work_.rows_,
              .columns = work_.columns_,
              .depth = work_.depth_,
              .a = a_.data(),
              .b = b_.data(),
              .c = c_.data()};
    }
    [[nodiscard]] std::vector<bf16> c() const { return c_.download(); }

   private:
    const MatmulBf16& work_;
    simt::Buffer<bf16, side> a_;
    simt::Buffer<bf16, side> b_;
    simt::Buffer<bf16, side> c_;
  };

  MatmulBf16(const Sizes& sizes, std::uint64_t seed)
      : rows_(sizes[0]),
        columns_(sizes[1]),
        depth_(sizes[2]),
        seed_(seed),
        a_(to_bf16(normal_values(product(rows_, depth_), seed, "a"))),
        b_(to_bf16(normal_values(product(columns_, depth_), seed, "b"))) {}

  static LadderInfo describe() {
    return {.name = "matmul_bf16",
            .title = "c = a transpose(b) in bf16, sums in fp32, on tensor cores",
            .dimensions = {{.name = "rows", .emulated = 96, .gpu = 8192},
                           {.name = "columns", .emulated = 96, .gpu = 8192},
                           {.name = "depth", .emulated = 96, .gpu = 8192}},
            .limit = Limit::kBf16};
  }

  static std::vector<Rung<Problem>> rungs() {
    std::vector<Rung<Problem>> all = rungs_for_any_gpu();
    for (Rung<Problem>& rung : rungs_for_hopper()) {
      all.push_back(std::move(rung));
    }
    return all;
  }

  static Cost cost(const Sizes& sizes) {
    const double rows = sizes[0];
    const double columns = sizes[1];
    const double depth = sizes[2];
    return {.operations = 2.0 * rows * columns * depth,
            .least_bytes = 2.0 * (rows * depth + depth * columns + rows * columns)};
  }

  /// Products of bf16 are exact in fp32. A tensor core adds n products and a sum at once: it aligns them
  /// to the largest and cuts off what lies below its last bit, so each term loses at most 2^-23 of the
  /// largest, twice the rounding of one operation, and the result as much once more (Fasi, Higham,
  /// Mikaitis & Pranesh 2021, "Numerical behavior of NVIDIA tensor cores", section 3). K / n such
  /// additions of n + 2 errors are at most 2 K for n >= 2, each twice a rounding: gamma of 4 K, which
  /// holds for CUDA cores, too. K counts the zeros behind a ragged depth: at most 16.
  template <simt::Side side>
  Verdict judge(const Buffers<side>& buffers) const {
    const std::vector<bf16> c = buffers.c();
    const std::size_t depth = product(depth_, 1);
    const std::size_t columns = product(columns_, 1);
    Verdict verdict;
    for (const std::size_t index : sample(c.size(), kMostProducts / depth, seed_)) {
      const bf16* const left = &a_[index / columns * depth];
      const bf16* const right = &b_[index % columns * depth];
      double expected = 0.0;
      double magnitude = 0.0;
      for (std::size_t k = 0; k < depth; ++k) {
        const double term = value_of(left[k]) * value_of(right[k]);
        expected += term;
        magnitude += std::abs(term);
      }
      const double error_of_sum = rounding_of(4.0 * (depth_ + 16)) * magnitude;
      verdict.compare("c", index, value_of(c[index]), expected,
                      error_of_sum + kBf16Rounding * (std::abs(expected) + error_of_sum));
    }
    return verdict;
  }

 private:
  static constexpr std::size_t kMostProducts = std::size_t{1} << 25;  // of the f64 computation

  static std::size_t product(int left, int right) {
    return static_cast<std::size_t>(left) * static_cast<std::size_t>(right);
  }
  [[nodiscard]] std::size_t c_size() const { return product(rows_, columns_); }

  static std::vector<Rung<Problem>> rungs_for_any_gpu() {
    using simt::Side;
    return {{.info = {.number = 1,
                      .name = "cuda_cores",
                      .idea = "no tensor cores: 8 x 8 elements per thread, in fp32",
                      .file = "kernels/matmul_bf16/01_cuda_cores.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::cuda_cores<side>(a...); })},
            {.info = {.number = 2,
                      .name = "wmma",
                      .idea = "tensor cores through tiles of 16 x 16",
                      .file = "kernels/matmul_bf16/02_wmma.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::wmma<side>(a...); })},
            {.info = {.number = 3,
                      .name = "mma_padded",
                      .idea = "mma.sync, registers loaded from padded rows",
                      .file = "kernels/matmul_bf16/03_mma_padded.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::mma_padded<side>(a...); })},
            {.info = {.number = 4,
                      .name = "ldmatrix_swizzled",
                      .idea = "four matrices per load, from swizzled rows",
                      .file = "kernels/matmul_bf16/04_ldmatrix_swizzled.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::ldmatrix_swizzled<side>(a...); })},
            {.info = {.number = 5,
                      .name = "multistage",
                      .idea = "copies in the background, three stages deep",
                      .file = "kernels/matmul_bf16/05_multistage.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::multistage<side>(a...); }),
             .refusal = refuse_ragged_depth},
            {.info = {.number = 6,
                      .name = "wide_warp_tile",
                      .idea = "64 x 64 elements per warp, operands loaded ahead",
                      .file = "kernels/matmul_bf16/06_wide_warp_tile.cu"},
             .launchers = everywhere<Problem>(
                 []<Side side>(const auto&... a) { rungs_of::wide_warp_tile<side>(a...); }),
             .refusal = refuse_ragged_depth}};
  }

  static std::vector<Rung<Problem>> rungs_for_hopper() {
    using simt::Side;
    std::vector<Rung<Problem>> rungs{
        {.info = {.number = 7,
                  .name = "wgmma_tma",
                  .idea = "one warpgroup multiplies 64 x 64 tiles that TMA brings",
                  .file = "kernels/matmul_bf16/hopper/07_wgmma_tma.cu"},
         .launchers =
             on_gpu<Problem>([]<Side side>(const auto&... a) { rungs_of::wgmma_tma<side>(a...); })},
        {.info = {.number = 8,
                  .name = "wgmma_128",
                  .idea = "tiles of 128 x 128: half the traffic",
                  .file = "kernels/matmul_bf16/hopper/08_wgmma_128.cu"},
         .launchers =
             on_gpu<Problem>([]<Side side>(const auto&... a) { rungs_of::wgmma_128<side>(a...); })},
        {.info = {.number = 9,
                  .name = "producer_consumer",
                  .idea = "one warpgroup fetches ahead into a ring, the other multiplies",
                  .file = "kernels/matmul_bf16/hopper/09_producer_consumer.cu"},
         .launchers = on_gpu<Problem>(
             []<Side side>(const auto&... a) { rungs_of::producer_consumer<side>(a...); })},
        {.info = {.number = 10,
                  .name = "two_consumers",
                  .idea = "128 x 256 on two warpgroups, registers moved to where they are used",
                  .file = "kernels/matmul_bf16/hopper/10_two_consumers.cu"},
         .launchers = on_gpu<Problem>(
             []<Side side>(const auto&... a) { rungs_of::two_consumers<side>(a...); })},
        {.info = {.number = 11,
                  .name = "persistent",
                  .idea = "blocks that stay, tiles in the order that the cache likes",
                  .file = "kernels/matmul_bf16/hopper/11_persistent.cu"},
         .launchers = on_gpu<Problem>(
             []<Side side>(const auto&... a) { rungs_of::persistent<side>(a...); })},
        {.info = {.number = 12,
                  .name = "cluster_multicast",
                  .idea = "two blocks fetch b once for both; c leaves through TMA",
                  .file = "kernels/matmul_bf16/hopper/12_cluster_multicast.cu"},
         .launchers = on_gpu<Problem>(
             []<Side side>(const auto&... a) { rungs_of::cluster_multicast<side>(a...); })}};
    for (Rung<Problem>& rung : rungs) {
      rung.info.needs = Needs::kHopper;
      rung.refusal = refuse_for_hopper;
    }
    return rungs;
  }

  int rows_;
  int columns_;
  int depth_;
  std::uint64_t seed_;
  std::vector<bf16> a_;  // (rows, depth)
  std::vector<bf16> b_;  // (columns, depth)
};

}  // namespace

std::unique_ptr<Ladder> matmul_bf16_ladder() { return std::make_unique<LadderOf<MatmulBf16>>(); }

}  // namespace ultra::ladders
