// What large trainings take of the generic kernels reads and writes each element once, in whole sectors: bytes
// by the checked emulator's count, over the least.
#include <numeric>

#include "kernels/generic/elements/adamw.hpp"
#include "kernels/generic/elements/copy.hpp"
#include "kernels/generic/elements/elementwise.hpp"
#include "kernels/generic/elements/sums.hpp"
#include "kernels/generic/rows/rows.hpp"
#include "tests/kernels/generic/support.hpp"

namespace ultra::kernels::generic::test {
namespace bytes_test {

using simt::AccessKind;
using simt::bf16;

// Sectors of 32 bytes that `launch` moves, in bytes.
template <typename Launch>
double moved_by(const Launch& launch) {
  simt::Report report;
  launch(simt::Queue{.report = &report});
  std::uint64_t sectors = 0;
  for (const AccessKind kind :
       {AccessKind::kGlobalLoad, AccessKind::kGlobalStore, AccessKind::kGlobalAtomic}) {
    sectors += report.total(kind).sectors;
  }
  return 32.0 * static_cast<double>(sectors);
}

class MovedBytes : public PlainTest {
 protected:
  static constexpr std::size_t kCount = 16384;
  static constexpr double kMost = 1.1;  // of the least
};

TEST_F(MovedBytes, OfSums) {
  const auto x = eighths<bf16>("x", kCount);
  const auto y = eighths<bf16>("y", kCount);
  Checked<bf16> sum("sum", kCount);
  EXPECT_LE(moved_by([&](const simt::Queue& queue) {
              add<kChecked>(target(sum), source(x), source(y), kCount, queue);
            }),
            kMost * 3 * kCount * sizeof(bf16));
}

TEST_F(MovedBytes, OfConversions) {
  const auto wide = eighths<float>("wide", kCount);
  Checked<bf16> narrow("narrow", kCount);
  const Layout all{.rank = 1, .extents = {kCount}, .strides = {1}};
  EXPECT_LE(moved_by([&](const simt::Queue& queue) {
              copy<kChecked>(target(narrow), all, source(wide), all, queue);
            }),
            kMost * kCount * (sizeof(float) + sizeof(bf16)));
}

TEST_F(MovedBytes, OfTheNorm) {
  const auto x = eighths<float>("x", kCount);
  Checked<double> sum("sum", 1);
  Checked<double> partials("partials", partial_sums(kCount));
  EXPECT_LE(moved_by([&](const simt::Queue& queue) {
              sum_of_squares<kChecked>(sum.data(), source(x), kCount, partials.data(),
                                       Write::kOverwrite, queue);
            }),
            kMost * kCount * sizeof(float));
}

// Of parts that begin anywhere, but all operands alike; the bf16 copy of master weights is written in the
// same pass.
TEST_F(MovedBytes, OfAdamW) {
  constexpr std::size_t kRoom = kCount + 64;
  Checked<float> value("value", eighths<float>("value", kRoom).download());
  Checked<float> first("first", eighths<float>("first", kRoom).download());
  Checked<float> second("second", std::vector<float>(kRoom, 0.5F));
  Checked<bf16> rounded("rounded", eighths<bf16>("rounded", kRoom).download());
  const auto grad = eighths<bf16>("grad", kRoom);
  std::vector<AdamWTensor> parts;
  for (std::size_t begin = 0; begin < kCount;) {
    begin += static_cast<std::size_t>(between(0, 9));
    const auto count = static_cast<std::size_t>(between(1000, 5000));
    if (begin + count > kRoom) break;
    parts.push_back({.value = {Number::kF32, value.data() + begin},
                     .grad = {Number::kBf16, grad.data() + begin},
                     .first_moment = {Number::kF32, first.data() + begin},
                     .second_moment = {Number::kF32, second.data() + begin},
                     .rounded = {Number::kBf16, rounded.data() + begin},
                     .count = count,
                     .decays = true});
    begin += count;
  }
  std::size_t elements = 0;
  for (const AdamWTensor& part : parts) elements += part.count;
  const double moved = moved_by([&](const simt::Queue& queue) {
    adamw<kChecked>(parts.data(), parts.size(),
                    {.learning_rate = 1e-3,
                     .beta1 = 0.9,
                     .beta2 = 0.95,
                     .epsilon = 1e-8,
                     .weight_decay = 0.1,
                     .gradient_scale = 1.0,
                     .step = 1},
                    queue);
  });
  EXPECT_LE(moved, kMost * static_cast<double>(elements * (6 * sizeof(float) + 2 * sizeof(bf16))));
}

TEST_F(MovedBytes, OfRotations) {
  constexpr std::size_t kHeads = 8;
  constexpr std::size_t kHalf = 32;
  constexpr std::size_t kSeq = kCount / (kHeads * 2 * kHalf);
  Checked<bf16> x("x", eighths<bf16>("x", kCount).download());
  const auto table = eighths<float>("table", kSeq * kHalf);
  std::vector<int> positions(kSeq);
  std::iota(positions.begin(), positions.end(), 0);
  const Rope of{.batch = 1,
                .seq = kSeq,
                .heads = kHeads,
                .half = kHalf,
                .x = target(x),
                .cosines = source(table),
                .sines = source(table),
                .sign = 1,
                .positions = runs_of(positions)};
  // Cosines and sines, of four bytes, are read for each head: from the caches.
  const double least = 2 * kCount * sizeof(bf16);
  const double tables = 2.0 * kCount / 2 * sizeof(float);
  EXPECT_LE(moved_by([&](const simt::Queue& queue) { rope<kChecked>(of, queue); }),
            kMost * (least + tables));
}

// A row is read twice, the second time from the second-level cache, which holds it.
TEST_F(MovedBytes, OfCrossEntropies) {
  constexpr std::size_t kVocab = 4096;
  constexpr std::size_t kRows = kCount / kVocab;
  Checked<bf16> logits("logits", eighths<bf16>("logits", kCount).download());
  const Checked<int> targets("targets", std::vector<int>(kRows, 5));
  Checked<double> loss("loss", 1);
  Checked<double> scratch("scratch", kRows);
  EXPECT_LE(moved_by([&](const simt::Queue& queue) {
              cross_entropy<kChecked>({kRows, kVocab, target(logits), targets.data(), 1.0,
                                       loss.data(), Write::kOverwrite, scratch.data()},
                                      queue);
            }),
            kMost * 3 * kCount * sizeof(bf16));
}

}  // namespace bytes_test
}  // namespace ultra::kernels::generic::test
