// Contract of exercise 01.1: the closed forms give the published figures, and the bytes of real
// models to the last one.
#include "chapters/01_memory/memory_estimate.hpp"

#include "chapters/01_memory/model_presets.hpp"
#include "tests/exercises/01_memory/expected_bytes.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::memory {
namespace {

using namespace measured;

TEST(ParameterCount, EqualsThePublishedModels) {
  // Sums over the tensors of the published checkpoints. GPT-2 and GPT-3 with learned positions;
  // GPT-3 "175B": Brown et al. 2020, arXiv 2005.14165, table 2.1.
  expect_parameter_count(find_preset("gpt2-124m"), 124'439'808);
  expect_parameter_count(find_preset("gpt3-175b"), 174'604'259'328);
  expect_parameter_count(find_preset("llama-1b"), 1'235'814'400);
  expect_parameter_count(find_preset("llama-7b"), 6'738'415'616);
  expect_parameter_count(find_preset("llama-8b"), 8'030'261'248);
  expect_parameter_count(find_preset("llama-70b"), 70'553'706'496);
  expect_parameter_count(find_preset("llama-405b"), 405'853'388'800);
  // The Playbook's formula, without learned positions.
  TransformerShape shape = find_preset("gpt3-175b");
  shape.num_positions = 0;
  expect_parameter_count(shape, 174'579'093'504);
}

TEST(ParameterCount, RoundsToMegatronsTable) {
  // Narayanan et al. 2021, arXiv 2104.04473, table 1: billions of parameters, as printed.
  struct Row {
    std::size_t layers, hidden, heads;
    double billions;
  };
  for (const auto& [layers, hidden, heads, billions] :
       {Row{24, 2304, 24, 1.7}, Row{36, 4096, 32, 7.5}, Row{48, 8192, 64, 39.1},
        Row{80, 12288, 96, 145.6}, Row{105, 20480, 128, 529.6}}) {
    const double found = count_of(parameter_count(gpt_shape(layers, hidden, heads))) / 1e9;
    EXPECT_DOUBLE_EQ(std::round(found * 10) / 10, billions) << layers << " layers of " << hidden;
  }
}

TEST(ParameterCount, EqualsTheModelThatTheWorkbookTrains) {
  for_random_cases([](const Case& c) {
    nn::DenseFactory factory;
    const nn::Model model(c.config, Device::cpu(), DType::kF32, 1, factory);
    expect_parameter_count(shape_of(c.config), model.parameter_count());
  });
}

TEST(BytesPerParameter, AreThoseOfZeroAndThePlaybook) {
  // Rajbhandari et al. 2020 (ZeRO), arXiv 1910.02054, sec. 3.1: 2 + 2 + 12 bytes. The Ultra-Scale
  // Playbook, "Memory for weights/grads/optimizer states": 4 + 4 + 8 and 2 + 2 + 12 (+ 4).
  expect_state_bytes(NumberFormats::kFp32, {.parameters = 4, .gradients = 4, .optimizer = 8});
  expect_state_bytes(NumberFormats::kFp64, {.parameters = 8, .gradients = 8, .optimizer = 16});
  expect_state_bytes(NumberFormats::kBf16Mixed, {.parameters = 2, .gradients = 2, .optimizer = 12});
  expect_state_bytes(NumberFormats::kBf16MixedFp32Grads,
                     {.parameters = 2, .gradients = 6, .optimizer = 12});
}

TEST(BytesPerParameter, GiveThePlaybooksTable) {
  // The Ultra-Scale Playbook, same section: GB by nominal number of parameters, without and with
  // fp32 gradient accumulation.
  struct Row {
    std::size_t billions, gb, gb_fp32_grads;
  };
  for (const auto& [billions, gb, gb_fp32_grads] :
       {Row{1, 16, 20}, Row{7, 112, 140}, Row{70, 1120, 1400}, Row{405, 6480, 8100}}) {
    EXPECT_EQ(billions * bytes_per_parameter(NumberFormats::kBf16Mixed).total(), gb);
    EXPECT_EQ(billions * bytes_per_parameter(NumberFormats::kBf16MixedFp32Grads).total(),
              gb_fp32_grads);
  }
}

TEST(BlockActivations, OfGpt3EqualKorthikanti) {
  // Korthikanti et al. 2022, arXiv 2205.05198, eq. 1 and table 2: 34 s b h + 5 a s^2 b, 34 s b h
  // and 2 s b h per layer; GPT-3, one sequence of 2048 tokens, in GB to two digits.
  const TransformerShape& gpt3 = find_preset("gpt3-175b");
  const BatchShape batch{.size = 1, .seq_len = 2048};
  EXPECT_NEAR(count_of(all_blocks(gpt3, batch, Recompute::kNone)) / 1e9, 275.41, 0.005);
  EXPECT_NEAR(count_of(all_blocks(gpt3, batch, Recompute::kSelective)) / 1e9, 82.14, 0.005);
  EXPECT_NEAR(count_of(all_blocks(gpt3, batch, Recompute::kFull)) / 1e9, 4.83, 0.005);
}

TEST(BlockActivations, OfGptGrowAsKorthikantiSays) {
  // The same, table 3 and sec. 5: 5 a s / h of the four models; selective recomputation saves 70%
  // for GPT-3 175B and 65% for 530B.
  struct Row {
    std::size_t layers, hidden, heads;
    double quadratic;
    int saved_percent;
  };
  for (const auto& [layers, hidden, heads, quadratic, saved_percent] :
       {Row{48, 6144, 64, 106.67, 76}, Row{96, 12288, 96, 80, 70}, Row{105, 20480, 128, 64, 65},
        Row{128, 25600, 160, 64, 65}}) {
    const TransformerShape shape = gpt_shape(layers, hidden, heads);
    for (const std::size_t size : {1u, 4u}) {
      const BatchShape batch{.size = size, .seq_len = 2048};
      const double none = count_of(all_blocks(shape, batch, Recompute::kNone));
      const double selective = count_of(all_blocks(shape, batch, Recompute::kSelective));
      EXPECT_NEAR(34 * (none / selective - 1), quadratic, 0.005) << shape.name;
      EXPECT_NEAR(100 * (1 - selective / none), saved_percent, 0.5) << shape.name;
    }
  }
}

TEST(BlockActivations, OfGptWithAnotherFeedForwardWidth) {
  // Korthikanti et al. 2022: MLP 19 s b h of 34 for f = 4 h, that is (3 + 4 f / h) s b h.
  TransformerShape shape = gpt_shape(2, 96, 6);
  shape.ffn_hidden_size = 100;
  const BatchShape batch{.size = 3, .seq_len = 7};
  EXPECT_EQ(block_activation_bytes(shape, batch, NumberFormats::kBf16Mixed, Recompute::kSelective),
            7u * 3 * (18 * 96 + 4 * 100));
  EXPECT_EQ(block_activation_bytes(shape, batch, NumberFormats::kFp32, Recompute::kNone),
            7u * 3 * (34 * 96 + 8 * 100) + (4 + 1 + 4) * 6 * 7 * 7 * 3u)
      << "in fp32 everything doubles but the dropout masks, which keep 1 byte per element";
}

TEST(OutsideActivations, OfGptEqualKorthikanti) {
  // Korthikanti et al. 2022, sec. 4.3: s b h L (1 / L + 4 / L (1 + v / h)) for p = t = 1. For the
  // 22B model of table 3 that is 0.57% of eq. 1 and 2.3% of eq. 1 without its s^2 term.
  const TransformerShape shape = gpt_shape(48, 6144, 64);
  const BatchShape batch{.size = 4, .seq_len = 2048};
  const OutsideBytes outside = outside_activation_bytes(shape, batch, NumberFormats::kBf16Mixed);
  const double bytes = count_of(outside.embedding + outside.head);
  EXPECT_NEAR(100 * bytes / count_of(all_blocks(shape, batch, Recompute::kNone)), 0.57, 0.005);
  EXPECT_NEAR(100 * bytes / count_of(all_blocks(shape, batch, Recompute::kSelective)), 2.3, 0.05);
  EXPECT_EQ(outside.embedding, 4u * 2048 * 6144) << "a dropout mask of 1 byte per element";
}

TEST(ModelOfTheWorkbook, KeepsTheEstimatedBytes) {
  for_random_cases([](const Case& c) {
    for (const DType dtype : ultra::test::kFloatDTypes) {
      const Measured measured = measure_step(c, dtype);
      const TransformerShape shape = shape_of(c.config);
      const std::size_t count = parameter_count(shape);
      const StateBytes per = bytes_per_parameter(precision_of(dtype));
      EXPECT_EQ(count * per.parameters, measured.memory.peak(MemoryCategory::kParameters).bytes);
      EXPECT_EQ(count * per.gradients, measured.memory.peak(MemoryCategory::kGradients).bytes);
      const std::size_t whole = measured.saved_under("blocks/0/");
      expect_block_bytes(c, dtype, Recompute::kNone, whole);
      expect_block_bytes(c, dtype, Recompute::kSelective,
                         whole - measured.saved.at("blocks/0/attention/qkv/input") -
                             measured.saved.at("blocks/0/feed_forward/gate_up/input") -
                             measured.saved.at("blocks/0/feed_forward/down/input"));
      expect_block_bytes(c, dtype, Recompute::kFull,
                         measured.saved.at("blocks/0/attention_norm/input"));
      const OutsideBytes outside = outside_activation_bytes(shape, c.batch, precision_of(dtype));
      EXPECT_EQ(outside.embedding, measured.saved_under("embedding/"))
          << "token ids are i32 in every precision: 4 bytes per token";
      EXPECT_EQ(outside.head, measured.saved_under("final_norm/") + measured.saved_under("head/") +
                                  measured.saved_under("loss/"))
          << "final norm: its input and 1 / rms; projection: its input; loss: d_logits";
    }
  });
}

TEST(OutsideActivations, OfAHeadInPiecesAreThoseOfTheLongest) {
  for_random_cases([](const Case& drawn) {
    Case c = drawn;
    c.config.vocab_size += 500;  // the head outweighs the blocks
    const std::size_t tokens = c.batch.tokens();
    for (const std::size_t chunks : {std::min<std::size_t>(2, tokens), 1 + c.batch.seq_len / 2}) {
      c.config.head_chunks = c.batch.head_chunks = chunks;
      expect_measured_peaks(c);
    }
  });
}

TEST(PeakActivations, EqualTheMeasuredPeakWhicheverOutweighsTheOther) {
  for (const std::size_t vocab : {2U, 301U}) {  // the blocks; the head
    expect_measured_peaks({.config = {.vocab_size = vocab,
                                      .hidden_size = 16,
                                      .num_layers = 5,
                                      .num_heads = 4,
                                      .num_kv_heads = 2,
                                      .ffn_hidden_size = 40},
                           .batch = {.size = 2, .seq_len = 7}});
  }
}

TEST(PeakActivations, EqualTheMeasuredPeakOfRandomModels) {
  for_random_cases(expect_measured_peaks);
}

}  // namespace
}  // namespace ultra::memory
