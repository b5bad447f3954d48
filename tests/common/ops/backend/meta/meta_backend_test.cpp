// What the meta device says of operations: against sums written out, and against the emulated device.

#include "common/gpu/meta/tape.hpp"
#include "common/gpu/streams.hpp"
#include "common/ops/adamw.hpp"
#include "common/ops/attention.hpp"
#include "common/ops/backend/backend.hpp"
#include "common/ops/cross_entropy.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/embedding.hpp"
#include "common/ops/matmul.hpp"
#include "common/ops/rms_norm.hpp"
#include "common/ops/rope.hpp"
#include "common/ops/swiglu.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

using ultra::gpu::Tape;
using ultra::gpu::TapedWork;
using ultra::gpu::WorkKind;

class MetaBackendTest : public test::RandomTest {
 protected:
  MetaBackendTest() { tape.run(true); }

  [[nodiscard]] Tensor room(const Shape& shape, DType dtype = DType::kF32) const {
    return Tensor::empty(meta, shape, dtype);
  }
  /// The last of the tape, of that name.
  [[nodiscard]] TapedWork last(const std::string& name) const {
    EXPECT_EQ(tape.names[tape.works.back().name], name);
    return tape.works.back();
  }

  Tape tape;
  Device meta = Device::meta(tape, 0, true);
};

TEST_F(MetaBackendTest, ALinearLayersThreeProductsAreOne) {
  const std::size_t tokens = random.between(1, 100);
  const std::size_t in = random.between(1, 100);
  const std::size_t out = random.between(1, 100);
  const Tensor x = room({tokens, in}, DType::kBF16);
  const Tensor weight = room({out, in}, DType::kBF16);
  const Tensor d_weight = room({out, in});
  const Tensor y = matmul(x, Transpose::kNo, weight, Transpose::kYes);
  static_cast<void>(matmul(y, Transpose::kNo, weight, Transpose::kNo));
  matmul_into(d_weight, y, Transpose::kYes, x, Transpose::kNo, Write::kAccumulate);
  ASSERT_EQ(tape.works.size(), 3U);
  for (const TapedWork& work : tape.works) {
    EXPECT_EQ(work.kind, WorkKind::kProduct);
    EXPECT_EQ(work.count, 1U);
    EXPECT_EQ(work.m, tokens);
    EXPECT_EQ(work.k, in);
    EXPECT_EQ(work.n, out);
    EXPECT_EQ(work.element_bytes, 2U);
    EXPECT_EQ(work.flop, 2.0 * count_of(tokens) * count_of(in) * count_of(out));
  }
  EXPECT_EQ(tape.works[0].read_bytes, 2 * (tokens * in + out * in));
  EXPECT_EQ(tape.works[0].written_bytes, 2 * tokens * out);
  EXPECT_EQ(tape.works[2].read_bytes, 2 * tokens * (in + out) + 4 * out * in);  // and its sum
  EXPECT_EQ(tape.works[2].written_bytes, 4 * out * in);
}

/// Random ascending positions.
std::vector<std::int32_t> positions_of(test::Random& random, std::size_t count) {
  std::vector<std::int32_t> positions;
  std::int32_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    positions.push_back(at += static_cast<std::int32_t>(random.between(0, 3)));
  }
  return positions;
}

TEST_F(MetaBackendTest, AttentionCountsThePairsThatAreSeen) {
  for (int trial = 0; trial < 30; ++trial) {
    const std::size_t batch = random.between(1, 3);
    const std::size_t kv_heads = random.between(1, 3);
    const std::size_t heads = kv_heads * random.between(1, 3);
    const std::size_t dim = 2 * random.between(1, 5);
    const auto queries = positions_of(random, random.between(1, 20));
    const auto keys = positions_of(random, random.between(1, 20));
    AttentionOptions options{.mask = random.pick({Mask::kNone, Mask::kCausal}),
                             .query_positions = queries,
                             .key_positions = keys};
    std::vector<std::int32_t> first_seen;
    if (random.between(0, 1) == 1) {
      for (std::size_t b = 0; b < batch; ++b) {
        const auto own = positions_of(random, queries.size());
        first_seen.insert(first_seen.end(), own.begin(), own.end());
      }
      options.first_seen = first_seen;
    }
    std::size_t pairs = 0;
    for (std::size_t b = 0; b < batch; ++b) {
      for (std::size_t q = 0; q < queries.size(); ++q) {
        for (const std::int32_t key : keys) {
          const bool is_late = options.mask == Mask::kCausal && key > queries[q];
          const bool is_early = !first_seen.empty() && key < first_seen[b * queries.size() + q];
          pairs += !is_late && !is_early ? 1 : 0;
        }
      }
    }
    const Tensor query = room({batch, queries.size(), heads, dim});
    const Tensor key = room({batch, keys.size(), kv_heads, dim});
    const AttentionResult result = attention(query, key, key, options);
    const TapedWork forward = last("attention");
    static_cast<void>(attention_backward(result.output, query, key, key, result.output,
                                         result.log_sum_exp, options));
    const TapedWork backward = last("attention_backward");
    EXPECT_EQ(forward.flop, 4.0 * count_of(dim * heads * pairs));
    EXPECT_EQ(backward.flop, 2 * forward.flop);
    for (const TapedWork& work : {forward, backward}) {
      EXPECT_EQ(work.kind, WorkKind::kAttention);
      EXPECT_EQ(work.count, batch * heads);
      EXPECT_EQ(work.m, queries.size());
      EXPECT_EQ(work.k, dim);
      EXPECT_EQ(work.n, keys.size());
      EXPECT_EQ(work.element_bytes, 4U);
    }
  }
}

TEST_F(MetaBackendTest, AnEmbeddingTouchesTheRowsOfItsTokens) {
  const std::size_t seq = random.between(1, 9);
  const std::size_t hidden = random.between(1, 9);
  const Tensor table = room({1000, hidden}, DType::kBF16);
  const Tensor d_table = room({1000, hidden});
  const Tensor tokens = room({2, seq}, DType::kI32);
  const Tensor x = embedding(table, tokens);
  const TapedWork forward = last("embedding");
  EXPECT_EQ(forward.read_bytes, 2 * seq * (4 + 2 * hidden));
  EXPECT_EQ(forward.written_bytes, 2 * seq * 2 * hidden);
  embedding_backward_into(d_table, x, tokens);
  const TapedWork backward = last("embedding_backward");
  EXPECT_EQ(backward.read_bytes, 2 * seq * (4 + 2 * hidden + 4 * hidden));
  EXPECT_EQ(backward.written_bytes, 2 * seq * 4 * hidden);
}

TEST_F(MetaBackendTest, RotationReadsTheAnglesOfItsPositions) {
  const Tensor x = room({2, 3, 4, 6});
  const RopeTable table(meta, DType::kF32, 6, 1000, 10000);
  const std::vector<std::int32_t> positions{5, 6, 7};
  rope_into(x, table, positions, Rotation::kForward);
  const TapedWork work = last("rope");
  EXPECT_EQ(work.read_bytes, x.nbytes() + 3 * 6 * 4);
  EXPECT_EQ(work.written_bytes, x.nbytes());
}

/// Every operation on a device, at sizes that no ladder takes.
/// @param table  for heads of 4, on the device.
void do_everything(const Device& device, DType dtype, const RopeTable& table) {
  const auto zeros = [&](const Shape& shape) { return Tensor::zeros(device, shape, dtype); };
  const DType sums = accumulation_dtype(dtype);
  const Tensor x = zeros({2, 5, 8});
  const Tensor weight = zeros({8});
  const Tensor d_weight = Tensor::zeros(device, {8}, sums);
  const Tensor number = Tensor::zeros(device, {1}, DType::kF64);
  const Tensor tokens = Tensor::zeros(device, {2, 5}, DType::kI32);
  const Tensor factor = zeros({10, 8});
  matmul_into(zeros({10, 10}), factor, Transpose::kNo, factor, Transpose::kYes);
  add_into(x, add(x, x));
  scale_into(x, 2);
  static_cast<void>(sum_of_squares(x));
  sum_of_squares_into(number, x, Write::kAccumulate);
  const RmsNormResult norm = rms_norm(x, weight, 1e-5);
  for (const Write write : {Write::kOverwrite, Write::kAccumulate}) {
    static_cast<void>(rms_norm_backward(x, x, weight, norm.reciprocal_rms, d_weight, write));
  }
  const std::vector<std::int32_t> scattered{0, 2,  3,  5,  8,
                                            9, 11, 14, 18, 19};  // a list on the device
  const std::vector<std::int32_t> first_seen(2 * scattered.size(), 1);
  const Tensor heads = zeros({2, scattered.size(), 2, 4});
  rope_into(heads, table, scattered, Rotation::kForward);
  for (const bool packed : {false, true}) {
    AttentionOptions options{.scale = 0.5};
    if (packed) {
      options.query_positions = scattered;
      options.first_seen = first_seen;
    }
    const AttentionResult result = attention(heads, heads, heads, options);
    static_cast<void>(attention_backward(result.output, heads, heads, heads, result.output,
                                         result.log_sum_exp, options));
  }
  static_cast<void>(swiglu_backward(x, x, swiglu(x, x)));
  const Tensor d_table = Tensor::zeros(device, {4, 8}, sums);
  embedding_backward_into(d_table, embedding(zeros({4, 8}), tokens), tokens);
  static_cast<void>(cross_entropy_into_gradient(x, tokens, 10));
  cross_entropy_into_gradient(number, x, tokens, 10, Write::kAccumulate);
  const Tensor value = Tensor::zeros(device, {8}, sums);
  adamw_into(value, d_weight, value.clone(), value.clone(), {.learning_rate = 0.1, .step = 1});
}

TEST_F(MetaBackendTest, AnnouncesWhatTheEmulatedDeviceAnnounces) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    const Device emulated = Device::create(DeviceKind::kEmulated);
    const RopeTable turned(emulated, accumulation_dtype(dtype), 4, 20, 10000);
    std::vector<std::string> announced;
    emulated.streams().set_listener(
        [&](const ultra::gpu::StreamSlice& slice) { announced.emplace_back(slice.operation); });
    const std::uint64_t waits_before = emulated.streams().synchronizations();
    do_everything(emulated, dtype, turned);
    emulated.streams().set_listener({});

    const std::size_t begin = tape.works.size();
    const std::uint64_t waits = meta.streams().synchronizations();
    do_everything(meta, dtype, RopeTable(meta, accumulation_dtype(dtype), 4, 20, 10000));
    std::vector<std::string> noted;
    for (std::size_t i = begin; i < tape.works.size(); ++i) {
      noted.push_back(tape.names[tape.works[i].name]);
    }
    EXPECT_EQ(noted, announced) << to_string(dtype);
    EXPECT_EQ(meta.streams().synchronizations() - waits,
              emulated.streams().synchronizations() - waits_before);
  }
}

}  // namespace
}  // namespace ultra::ops
