#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"

namespace ultra::tensor_parallel {
namespace {

using memory::BatchShape;
using memory::BlockKind;
using memory::NumberFormats;
using memory::Recompute;
using memory::TransformerShape;
using testing::AllOf;
using testing::HasSubstr;

constexpr Recompute kModes[] = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
constexpr NumberFormats kPrecisions[] = {
    NumberFormats::kFp64, NumberFormats::kFp32, NumberFormats::kBf16Mixed,
    NumberFormats::kBf16MixedFp32Grads, NumberFormats::kTwoBytes};

TensorParallelLayout off(int tp) { return {.tp = tp, .sequence_parallel = SequenceParallel::kOff}; }
TensorParallelLayout on(int tp) { return {.tp = tp, .sequence_parallel = SequenceParallel::kOn}; }

/// h 8, 4 heads of 2, 2 key/value heads, f 12, V 10, 3 layers: small enough to count by hand.
TransformerShape small_llama() {
  return {.name = "small",
          .kind = BlockKind::kLlama,
          .num_layers = 3,
          .hidden_size = 8,
          .num_heads = 4,
          .num_kv_heads = 2,
          .ffn_hidden_size = 12,
          .vocab_size = 10};
}

/// A model, a batch and a number of ranks into which both can be split.
struct Case {
  TransformerShape shape;
  BatchShape batch;
  int tp;
};

class TensorParallelMemory : public test::RandomTest {
 protected:
  Case random_case(BlockKind kind) {
    const int tp = random.pick({1, 2, 3, 4, 8});
    const auto t = static_cast<std::size_t>(tp);
    TransformerShape shape = small_llama();
    shape.kind = kind;
    shape.num_layers = random.between(1, 7);
    shape.num_kv_heads = t * random.between(1, 3);
    const std::size_t queries = kind == BlockKind::kGpt ? 1 : random.between(1, 4);
    shape.num_heads = shape.num_kv_heads * queries;
    shape.hidden_size = shape.num_heads * 2 * random.between(1, 8);
    shape.ffn_hidden_size = t * random.between(1, 50);
    shape.vocab_size = random.between(1, 300);
    shape.num_positions = kind == BlockKind::kGpt ? random.between(0, 64) : 0;
    shape.embeddings = random.pick({memory::Embeddings::kTied, memory::Embeddings::kUntied});
    return {.shape = shape,
            .batch = {.size = random.between(1, 5), .seq_len = t * random.between(1, 20)},
            .tp = tp};
  }
};

// Korthikanti et al. 2022, arXiv 2205.05198, section 4 and table 2: 2-byte elements, f = 4 h.
TEST_F(TensorParallelMemory, OfGptBlocksIsWhatKorthikantiSays) {
  for (int repetition = 0; repetition < 50; ++repetition) {
    Case c = random_case(BlockKind::kGpt);
    c.shape.ffn_hidden_size = 4 * c.shape.hidden_size;
    const auto t = static_cast<std::size_t>(c.tp);
    const std::size_t h = c.shape.hidden_size;
    const std::size_t sb = c.batch.tokens();
    const std::size_t as = c.shape.num_heads * c.batch.seq_len;
    const auto bytes = [&](Recompute mode, const TensorParallelLayout& layout) {
      return block_activation_bytes(c.shape, c.batch, NumberFormats::kBf16Mixed, mode, layout);
    };
    // Multiplied by t: the published forms divide.
    EXPECT_EQ(t * bytes(Recompute::kNone, off(c.tp)), sb * (h * (10 * t + 24) + 5 * as)) << "eq. 2";
    EXPECT_EQ(t * bytes(Recompute::kNone, on(c.tp)), sb * (34 * h + 5 * as)) << "eq. 4";
    EXPECT_EQ(t * bytes(Recompute::kSelective, off(c.tp)), sb * h * (10 * t + 24));
    EXPECT_EQ(t * bytes(Recompute::kSelective, on(c.tp)), sb * h * 34);
    EXPECT_EQ(bytes(Recompute::kFull, off(c.tp)), 2 * sb * h);
    EXPECT_EQ(t * bytes(Recompute::kFull, on(c.tp)), 2 * sb * h);
  }
}

// The same for our block, at any width of elements and any f.
TEST_F(TensorParallelMemory, OfOurBlocksIsDividedByTheRanksWithSequenceParallelism) {
  for (int repetition = 0; repetition < 50; ++repetition) {
    const Case c = random_case(BlockKind::kLlama);
    const auto t = static_cast<std::size_t>(c.tp);
    const auto& s = c.shape;
    for (const NumberFormats precision : kPrecisions) {
      const std::size_t e = memory::activation_element_bytes(precision);
      for (const Recompute mode : kModes) {
        const std::size_t bytes = block_activation_bytes(s, c.batch, precision, mode, on(c.tp));
        EXPECT_EQ(t * bytes, memory::block_activation_bytes(s, c.batch, precision, mode));
      }
      EXPECT_EQ(t * block_activation_bytes(s, c.batch, precision, Recompute::kNone, off(c.tp)),
                e * c.batch.tokens() *
                        (t * 4 * s.hidden_size + 2 * s.hidden_size + 2 * s.kv_hidden_size() +
                         3 * s.ffn_hidden_size) +
                    memory::row_sum_bytes(precision) * c.batch.tokens() * (2 * t + s.num_heads));
    }
  }
}

TEST_F(TensorParallelMemory, OnOneRankIsChapter01s) {
  for (int repetition = 0; repetition < 20; ++repetition) {
    for (const BlockKind kind : {BlockKind::kGpt, BlockKind::kLlama}) {
      const auto [shape, batch, tp] = random_case(kind);
      for (const TensorParallelLayout& layout : {off(1), on(1)}) {
        EXPECT_EQ(parameter_count(shape, layout), memory::parameter_count(shape));
        for (const NumberFormats precision : kPrecisions) {
          EXPECT_EQ(outside_activation_bytes(shape, batch, precision, layout),
                    memory::outside_activation_bytes(shape, batch, precision));
          for (const Recompute mode : kModes) {
            const std::size_t every = mode == Recompute::kFull ? random.between(1, 8) : 1;
            const memory::RecomputeConfig config{.mode = mode, .recompute_every = every};
            EXPECT_EQ(block_activation_bytes(shape, batch, precision, mode, layout),
                      memory::block_activation_bytes(shape, batch, precision, mode));
            EXPECT_EQ(peak_activation_bytes(shape, batch, precision, config, layout),
                      memory::peak_activation_bytes(shape, batch, precision, config));
          }
        }
      }
    }
  }
}

// All ranks together have the model once, and t - 1 more copies of what is not split.
TEST_F(TensorParallelMemory, OfParametersAddsUpToTheModelAndItsCopies) {
  for (int repetition = 0; repetition < 50; ++repetition) {
    const BlockKind kind = random.pick({BlockKind::kGpt, BlockKind::kLlama});
    Case c = random_case(kind);
    const auto t = static_cast<std::size_t>(c.tp);
    const std::size_t h = c.shape.hidden_size;
    const std::size_t tables = c.shape.embeddings == memory::Embeddings::kTied ? 1 : 2;
    const std::size_t padding = (t - c.shape.vocab_size % t) % t * h * tables;
    const std::size_t copied = kind == BlockKind::kGpt
                                   ? c.shape.num_layers * 6 * h + 2 * h + c.shape.num_positions * h
                                   : c.shape.num_layers * 2 * h + h;
    EXPECT_EQ(t * parameter_count(c.shape, off(c.tp)),
              memory::parameter_count(c.shape) + (t - 1) * copied + padding);
    EXPECT_EQ(parameter_count(c.shape, on(c.tp)), parameter_count(c.shape, off(c.tp)))
        << "norms are whole, with and without sequence parallelism";
  }
}

TEST_F(TensorParallelMemory, FallsWithMoreRanksAndWithSequenceParallelism) {
  const TransformerShape& shape = memory::find_preset("llama-8b");
  const BatchShape batch{.size = 1, .seq_len = 4096};
  for (const Recompute mode : kModes) {
    const auto peak = [&](const TensorParallelLayout& layout) {
      return peak_activation_bytes(shape, batch, NumberFormats::kBf16Mixed, {.mode = mode}, layout);
    };
    for (const int tp : {2, 4, 8}) {
      EXPECT_LT(peak(off(tp)), peak(off(tp / 2)));
      EXPECT_LT(peak(on(tp)), peak(on(tp / 2)));
      EXPECT_LT(peak(on(tp)), peak(off(tp)));
      EXPECT_LT(parameter_count(shape, off(tp)), parameter_count(shape, off(tp / 2)));
    }
    // Without sequence parallelism what lies between the matrices stays whole.
    EXPECT_GT(peak(off(32)), memory::peak_activation_bytes(shape, batch, NumberFormats::kBf16Mixed,
                                                           {.mode = mode}) /
                                 32);
  }
}

// By hand ---------------------------------------------------------------------------------------

// On each of 4 ranks, per layer: query and output 2 x (8 x 8) / 4 = 32; key and value, one of the 2
// heads each, 2 x (2 x 8) = 32; gate, up and down 3 x 96 / 4 = 72; 2 norms of 8. Outside: 2 tables of
// ceil(10 / 4) = 3 rows of 8, and a norm of 8.
TEST(TensorParallelParameters, CountCopiesOfHeadsAndPadding) {
  EXPECT_EQ(parameter_count(small_llama(), off(4)), 3U * (32 + 32 + 72 + 16) + 2 * 24 + 8);
  // On each of 2: 64 + one key/value head as above + 144 + 16; 5 rows.
  EXPECT_EQ(parameter_count(small_llama(), off(2)), 3U * (64 + 32 + 144 + 16) + 2 * 40 + 8);
}

// b 1, s 8, f32, per token and layer. Between: norms' inputs 16, 1/rms 2, outputs 16. Inside, on 4
// ranks: query 2, output 2, log-sum-exp 1, gate, up and product 9, key and value of one head 4.
TEST(TensorParallelActivations, CountOurBlocksTensors) {
  const BatchShape batch{.size = 1, .seq_len = 8};
  const auto bytes = [&](Recompute mode, const TensorParallelLayout& layout) {
    return block_activation_bytes(small_llama(), batch, NumberFormats::kFp32, mode, layout);
  };
  EXPECT_EQ(bytes(Recompute::kNone, off(4)), 4U * 8 * (34 + 18));
  EXPECT_EQ(bytes(Recompute::kNone, on(4)), 4U * (2 * 34 + 8 * 18))
      << "key/value heads that are copied are not divided";
  EXPECT_EQ(bytes(Recompute::kSelective, off(4)), 4U * 8 * (18 + 15));
  EXPECT_EQ(bytes(Recompute::kSelective, on(4)), 4U * (2 * 18 + 8 * 15));
  EXPECT_EQ(bytes(Recompute::kFull, off(4)), 4U * 8 * 8);
  EXPECT_EQ(bytes(Recompute::kFull, on(4)), 4U * 2 * 8) << "the block's input is a part, too";
}

// Final norm's input 8, 1/rms 1 and the head's input 8 of l tokens; 3 logits of each of 8 tokens.
TEST(TensorParallelActivations, CountWhatEmbeddingAndHeadKeep) {
  const BatchShape batch{.size = 1, .seq_len = 8};
  const auto outside = [&](const TensorParallelLayout& layout) {
    return outside_activation_bytes(small_llama(), batch, NumberFormats::kFp64, layout);
  };
  EXPECT_EQ(outside(off(4)), (memory::OutsideBytes{.embedding = 32, .head = 8U * 8 * (17 + 3)}));
  EXPECT_EQ(outside(on(4)), (memory::OutsideBytes{.embedding = 32, .head = 8U * (2 * 17 + 8 * 3)}));
}

// Korthikanti et al. 2022, section 4.3: s b h / t for the embedding's dropout, 2 s b h / t each for
// final norm and output projection, 4 s b v / t for the logits.
TEST(TensorParallelActivations, OfGptsHeadAreWhatKorthikantiSays) {
  TransformerShape shape = memory::find_preset("gpt3-175b");
  shape.vocab_size = 51200;
  const BatchShape batch{.size = 1, .seq_len = 2048};
  const std::size_t sb = batch.tokens();
  const auto found = outside_activation_bytes(shape, batch, NumberFormats::kBf16Mixed, on(8));
  EXPECT_EQ(found.embedding, sb * 12288 / 8);
  EXPECT_EQ(found.head, sb * (4 * 12288 + 4 * 51200) / 8);
}

// 3 layers in groups of 2: at the loss 2 inputs and the head; in the first group's backward 2 blocks;
// in the second's 1 input and 1 block.
TEST(TensorParallelActivations, PeakWithinABlockOrAtTheLoss) {
  const BatchShape batch{.size = 1, .seq_len = 8};
  const memory::RecomputeConfig groups{.mode = Recompute::kFull, .recompute_every = 2};
  const auto peak = [&](const TransformerShape& shape, const TensorParallelLayout& layout) {
    return peak_activation_bytes(shape, batch, NumberFormats::kFp32, groups, layout);
  };
  TransformerShape shape = small_llama();
  EXPECT_EQ(peak(shape, on(4)), 32U + 2 * 4 * (2 * 34 + 8 * 18)) << "embedding, 2 blocks";
  shape.vocab_size = 4000;
  EXPECT_EQ(peak(shape, on(4)), 32U + 2 * 4 * 2 * 8 + 4 * (2 * 17 + 8 * 1000))
      << "embedding, 2 inputs, head";
}

TEST(TensorParallelActivations, OfLargeModelsDoNotOverflow) {
  const TransformerShape& shape = memory::find_preset("llama-405b");
  const BatchShape batch{.size = 16, .seq_len = 131072};
  EXPECT_EQ(8 * block_activation_bytes(shape, batch, NumberFormats::kFp64, Recompute::kNone, on(8)),
            memory::block_activation_bytes(shape, batch, NumberFormats::kFp64, Recompute::kNone));
}

TEST(TensorParallelShapes, ThatCannotBeSplitAreRefused) {
  const auto refusal = [](const TransformerShape& shape, std::size_t seq,
                          const TensorParallelLayout& layout) {
    return test::message_of<ConfigError>([&] { validate(shape, {.seq_len = seq}, layout); });
  };
  EXPECT_NO_THROW(validate(small_llama(), {.seq_len = 7}, off(4)));
  EXPECT_THAT(refusal(small_llama(), 7, on(4)), AllOf(HasSubstr("--seq"), HasSubstr("7 % 4 = 3")));
  EXPECT_THAT(refusal(small_llama(), 8, off(3)), HasSubstr("--tp"));
  EXPECT_THAT(refusal(small_llama(), 8, off(8)), HasSubstr("--heads"));
  TransformerShape odd = small_llama();
  odd.ffn_hidden_size = 13;
  EXPECT_THAT(refusal(odd, 8, off(2)), HasSubstr("--ffn"));
}

}  // namespace
}  // namespace ultra::tensor_parallel
