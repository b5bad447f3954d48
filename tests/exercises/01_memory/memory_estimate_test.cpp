// Contract of exercise 01.1: the closed forms give the published figures, and the bytes of real
// models to the last one.
#include "chapters/01_memory/memory_estimate.hpp"

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "tests/exercises/01_memory/measured_step.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::memory {
namespace {

using measured::Case;
using measured::for_random_cases;
using measured::kDTypes;
using measured::measure_step;
using measured::Measured;
using measured::real;

/// A typical mistake: what it adds to the right value (negative: leaves out), and what to say.
struct Suspect {
  std::size_t extra = 0;
  std::size_t missing = 0;
  const char* hint = "";
};

constexpr const char* kSecondTable =
    "an untied model has two V x h tables: the token embedding and the output projection.";
constexpr const char* kOneTable = "tied embeddings are one V x h table: count it once.";
constexpr const char* kKvWidth =
    "key and value have num_kv_heads heads, not num_heads: their projections are h x kv.";
constexpr const char* kTwoMoments =
    "Adam keeps two numbers per parameter in full precision, momentum and variance: 8 bytes.";
constexpr const char* kMasterWeights =
    "mixed precision adds fp32 master weights to the optimizer's states: 4 + 8 bytes.";
constexpr const char* kLargerMoment =
    "the head's tensors are gone before a block is recomputed: take the larger of the two moments, "
    "not their sum.";
constexpr const char* kSharedInput =
    "a group's kept input is its first block's input: one tensor, counted once.";

/// The first suspect that explains the difference; else what to look at.
std::string diagnosis(std::size_t found, std::size_t expected,
                      const std::vector<Suspect>& suspects) {
  for (const auto& [extra, missing, hint] : suspects) {
    if (extra != missing && found + missing == expected + extra) {
      return fmt::format("Hint: {}", hint);
    }
  }
  return fmt::format("{} too {}.", found > expected ? found - expected : expected - found,
                     found > expected ? "many" : "few");
}

std::vector<Suspect> parameter_suspects(const TransformerShape& s) {
  const std::size_t h = s.hidden_size;
  const std::size_t table = s.vocab_size * h;
  const bool tied = s.embeddings == Embeddings::kTied;
  return {
      {.extra = 0, .missing = tied ? 0 : table, .hint = kSecondTable},
      {.extra = tied ? table : 0, .missing = 0, .hint = kOneTable},
      {.extra = 2 * s.num_layers * h * (h - s.kv_hidden_size()), .hint = kKvWidth},
      {.missing = s.num_positions * h, .hint = "the table of learned positions has weights too."},
      {.missing = h, .hint = "a last norm, with its weight, follows the last block."},
      {.missing = 2 * h, .hint = "a last norm, with weight and bias, follows the last block."},
      {.missing = s.num_layers * h * s.ffn_hidden_size,
       .hint = "SwiGLU has three matrices: gate, up and down."},
      {.missing = s.num_layers * (s.ffn_hidden_size + 5 * h),
       .hint = "GPT's linear maps have biases: 3 h + h in attention, f + h behind it."}};
}

void expect_parameter_count(const TransformerShape& shape, std::size_t expected) {
  const std::size_t found = parameter_count(shape);
  EXPECT_EQ(found, expected) << shape.name << ": "
                             << diagnosis(found, expected, parameter_suspects(shape));
}

TransformerShape gpt_shape(std::size_t layers, std::size_t hidden, std::size_t heads) {
  TransformerShape shape = find_preset("gpt3-175b");
  shape.name = fmt::format("GPT of {} layers of {}", layers, hidden);
  shape.num_layers = layers;
  shape.hidden_size = hidden;
  shape.num_heads = shape.num_kv_heads = heads;
  shape.ffn_hidden_size = 4 * hidden;
  shape.vocab_size = 51200;
  return shape;
}

// Part 1 ------------------------------------------------------------------------------------------

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
}

TEST(ParameterCount, FollowsThePlaybooksFormulaWithoutLearnedPositions) {
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
    const double found = real(parameter_count(gpt_shape(layers, hidden, heads))) / 1e9;
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

// Part 2 ------------------------------------------------------------------------------------------

void expect_state_bytes(Precision precision, const StateBytes& expected) {
  const StateBytes found = bytes_per_parameter(precision);
  EXPECT_EQ(found.parameters, expected.parameters) << to_string(precision) << ": weights";
  EXPECT_EQ(found.gradients, expected.gradients)
      << to_string(precision)
      << ": gradients. fp32 accumulation is a second buffer of 4 bytes beside the bf16 gradients.";
  // 8 instead of 12 is one moment too few, or no master weights: fp32, which has none, tells.
  const bool one_moment = bytes_per_parameter(Precision::kFp32).optimizer == 4;
  const std::size_t number = precision == Precision::kFp64 ? 8 : 4;
  EXPECT_EQ(found.optimizer, expected.optimizer)
      << to_string(precision) << ": optimizer states. "
      << diagnosis(found.optimizer, expected.optimizer,
                   {{.missing = number, .hint = one_moment ? kTwoMoments : kMasterWeights},
                    {.missing = 2 * number, .hint = kTwoMoments}});
}

TEST(BytesPerParameter, AreThoseOfZeroAndThePlaybook) {
  // Rajbhandari et al. 2020 (ZeRO), arXiv 1910.02054, sec. 3.1: 2 + 2 + 12 bytes. The Ultra-Scale
  // Playbook, "Memory for weights/grads/optimizer states": 4 + 4 + 8 and 2 + 2 + 12 (+ 4).
  expect_state_bytes(Precision::kFp32, {.parameters = 4, .gradients = 4, .optimizer = 8});
  expect_state_bytes(Precision::kFp64, {.parameters = 8, .gradients = 8, .optimizer = 16});
  expect_state_bytes(Precision::kBf16Mixed, {.parameters = 2, .gradients = 2, .optimizer = 12});
  expect_state_bytes(Precision::kBf16MixedFp32Grads,
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
    EXPECT_EQ(billions * bytes_per_parameter(Precision::kBf16Mixed).total(), gb);
    EXPECT_EQ(billions * bytes_per_parameter(Precision::kBf16MixedFp32Grads).total(),
              gb_fp32_grads);
  }
}

TEST(BytesPerParameter, EqualWeightsAndGradientsOfRealModels) {
  for_random_cases([](const Case& c) {
    for (const DType dtype : kDTypes) {
      const MemoryTracker memory = measure_step(c, dtype).memory;
      const std::size_t count = parameter_count(shape_of(c.config));
      const StateBytes per = bytes_per_parameter(precision_of(dtype));
      EXPECT_EQ(count * per.parameters, memory.peak(MemoryCategory::kParameters).bytes);
      EXPECT_EQ(count * per.gradients, memory.peak(MemoryCategory::kGradients).bytes);
    }
  });
}

// Part 3 ------------------------------------------------------------------------------------------

std::size_t all_blocks(const TransformerShape& shape, const MicroBatch& batch, Recompute mode) {
  return shape.num_layers * block_activation_bytes(shape, batch, Precision::kBf16Mixed, mode);
}

TEST(BlockActivations, OfGpt3EqualKorthikanti) {
  // Korthikanti et al. 2022, arXiv 2205.05198, eq. 1 and table 2: 34 s b h + 5 a s^2 b, 34 s b h
  // and 2 s b h per layer; GPT-3, one sequence of 2048 tokens, in GB to two digits.
  const TransformerShape& gpt3 = find_preset("gpt3-175b");
  const MicroBatch batch{.size = 1, .seq_len = 2048};
  EXPECT_NEAR(real(all_blocks(gpt3, batch, Recompute::kNone)) / 1e9, 275.41, 0.005);
  EXPECT_NEAR(real(all_blocks(gpt3, batch, Recompute::kSelective)) / 1e9, 82.14, 0.005);
  EXPECT_NEAR(real(all_blocks(gpt3, batch, Recompute::kFull)) / 1e9, 4.83, 0.005);
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
      const MicroBatch batch{.size = size, .seq_len = 2048};
      const double none = real(all_blocks(shape, batch, Recompute::kNone));
      const double selective = real(all_blocks(shape, batch, Recompute::kSelective));
      EXPECT_NEAR(34 * (none / selective - 1), quadratic, 0.005) << shape.name;
      EXPECT_NEAR(100 * (1 - selective / none), saved_percent, 0.5) << shape.name;
    }
  }
}

TEST(BlockActivations, OfGptWithAnotherFeedForwardWidth) {
  // Korthikanti et al. 2022: MLP 19 s b h of 34 for f = 4 h, that is (3 + 4 f / h) s b h.
  TransformerShape shape = gpt_shape(2, 96, 6);
  shape.ffn_hidden_size = 100;
  const MicroBatch batch{.size = 3, .seq_len = 7};
  EXPECT_EQ(block_activation_bytes(shape, batch, Precision::kBf16Mixed, Recompute::kSelective),
            7u * 3 * (18 * 96 + 4 * 100));
  EXPECT_EQ(block_activation_bytes(shape, batch, Precision::kFp32, Recompute::kNone),
            7u * 3 * (34 * 96 + 8 * 100) + (4 + 1 + 4) * 6 * 7 * 7 * 3u)
      << "in fp32 everything doubles but the dropout masks, which keep 1 byte per element";
}

void expect_block_bytes(const Case& c, DType dtype, Recompute mode, std::size_t expected) {
  const TransformerShape shape = shape_of(c.config);
  const std::size_t e = size_of(dtype);
  const std::size_t tokens = c.batch.tokens();
  const std::size_t h = shape.hidden_size;
  const std::size_t per_score = shape.num_heads * c.batch.seq_len * tokens;
  const std::size_t found = block_activation_bytes(shape, c.batch, precision_of(dtype), mode);
  EXPECT_EQ(found, expected)
      << "recompute " << to_string(mode) << ", " << ultra::to_string(dtype) << ": "
      << diagnosis(found, expected,
                   {{.extra = 2 * e * tokens * (h - shape.kv_hidden_size()), .hint = kKvWidth},
                    {.extra = (2 * e + 1) * per_score, .hint = "our attention never stores S x S."},
                    {.extra = e * per_score, .hint = "our attention never stores S x S."},
                    {.extra = e * tokens * h,
                     .hint = "the output projection's input is attention's output: one tensor."},
                    {.missing = e * tokens * shape.num_heads,
                     .hint = "attention keeps its log-sum-exp, one element per head and token."},
                    {.missing = 2 * e * tokens, .hint = "each norm keeps 1 / rms of every token."},
                    {.missing = e * tokens * shape.ffn_hidden_size,
                     .hint = "gate, up and their product are three tensors of width f."}});
}

TEST(BlockActivations, EqualWhatABlockOfARealModelKeeps) {
  for_random_cases([](const Case& c) {
    for (const DType dtype : kDTypes) {
      const Measured measured = measure_step(c, dtype);
      const std::size_t whole = measured.saved_under("blocks/0/");
      expect_block_bytes(c, dtype, Recompute::kNone, whole);
      expect_block_bytes(c, dtype, Recompute::kSelective,
                         whole - measured.saved.at("blocks/0/attention/qkv/input") -
                             measured.saved.at("blocks/0/feed_forward/gate_up/input") -
                             measured.saved.at("blocks/0/feed_forward/down/input"));
      expect_block_bytes(c, dtype, Recompute::kFull,
                         measured.saved.at("blocks/0/attention_norm/input"));
    }
  });
}

// Part 4 ------------------------------------------------------------------------------------------

TEST(OutsideActivations, OfGptEqualKorthikanti) {
  // Korthikanti et al. 2022, sec. 4.3: s b h L (1 / L + 4 / L (1 + v / h)) for p = t = 1. For the
  // 22B model of table 3 that is 0.57% of eq. 1 and 2.3% of eq. 1 without its s^2 term.
  const TransformerShape shape = gpt_shape(48, 6144, 64);
  const MicroBatch batch{.size = 4, .seq_len = 2048};
  const OutsideBytes outside = outside_activation_bytes(shape, batch, Precision::kBf16Mixed);
  const double bytes = real(outside.embedding + outside.head);
  EXPECT_NEAR(100 * bytes / real(all_blocks(shape, batch, Recompute::kNone)), 0.57, 0.005);
  EXPECT_NEAR(100 * bytes / real(all_blocks(shape, batch, Recompute::kSelective)), 2.3, 0.05);
  EXPECT_EQ(outside.embedding, 4u * 2048 * 6144) << "a dropout mask of 1 byte per element";
}

TEST(OutsideActivations, EqualWhatEmbeddingAndHeadOfARealModelKeep) {
  for_random_cases([](const Case& c) {
    for (const DType dtype : kDTypes) {
      const Measured measured = measure_step(c, dtype);
      const OutsideBytes found =
          outside_activation_bytes(shape_of(c.config), c.batch, precision_of(dtype));
      EXPECT_EQ(found.embedding, measured.saved_under("embedding/"))
          << "token ids are i32 in every precision: 4 bytes per token";
      EXPECT_EQ(found.head, measured.saved_under("final_norm/") + measured.saved_under("head/") +
                                measured.saved_under("loss/"))
          << "final norm: its input and 1 / rms; projection: its input; loss: d_logits";
    }
  });
}

// Part 5 ------------------------------------------------------------------------------------------

void expect_peak(const Case& c, DType dtype, const RecomputeConfig& config,
                 const Measured& measured, std::size_t expected) {
  const std::size_t found =
      peak_activation_bytes(shape_of(c.config), c.batch, precision_of(dtype), config);
  const std::size_t head = measured.saved_under("final_norm/") + measured.saved_under("head/") +
                           measured.saved_under("loss/");
  const std::size_t input = measured.saved.at("blocks/0/attention_norm/input");
  const std::size_t cheap = measured.saved.at("blocks/0/feed_forward/down/input") + 2 * input;
  std::vector<Suspect> suspects = {
      {.missing = measured.saved_under("embedding/"), .hint = "the token ids are kept as well."}};
  if (config.mode == Recompute::kSelective) {
    suspects.push_back({.extra = std::min(head, cheap), .hint = kLargerMoment});
    suspects.push_back(
        {.missing = cheap - std::min(head, cheap),
         .hint =
             "what is dropped at a block's end had been there until then: a moment of its own."});
  }
  if (config.mode == Recompute::kFull) {
    suspects.push_back({.extra = input, .hint = kSharedInput});
    suspects.push_back({.extra = head, .hint = kLargerMoment});
  }
  EXPECT_EQ(found, expected) << "recompute " << to_string(config.mode) << ", every "
                             << config.recompute_every << ", " << ultra::to_string(dtype) << ": "
                             << diagnosis(found, expected, suspects);
}

std::vector<RecomputeConfig> all_configs(std::size_t layers) {
  std::vector<RecomputeConfig> configs = {{}, {.mode = Recompute::kSelective}};
  for (std::size_t every = 1; every <= layers + 1; ++every) {
    configs.push_back({.mode = Recompute::kFull, .recompute_every = every});
  }
  return configs;
}

void expect_measured_peaks(const Case& c) {
  for (const DType dtype : kDTypes) {
    const Measured without = measure_step(c, dtype);
    for (const RecomputeConfig& config : all_configs(c.config.num_layers)) {
      const MemoryTracker memory = measure_step(c, dtype, config).memory;
      expect_peak(c, dtype, config, without, memory.peak(MemoryCategory::kActivations).bytes);
    }
  }
}

TEST(PeakActivations, EqualTheMeasuredPeakWhenTheBlocksOutweighTheHead) {
  expect_measured_peaks({.config = {.vocab_size = 2,
                                    .hidden_size = 16,
                                    .num_layers = 5,
                                    .num_heads = 4,
                                    .num_kv_heads = 2,
                                    .ffn_hidden_size = 40},
                         .batch = {.size = 2, .seq_len = 7}});
}

TEST(PeakActivations, EqualTheMeasuredPeakWhenTheHeadOutweighsTheBlocks) {
  expect_measured_peaks({.config = {.vocab_size = 301,
                                    .hidden_size = 16,
                                    .num_layers = 5,
                                    .num_heads = 4,
                                    .num_kv_heads = 2,
                                    .ffn_hidden_size = 40},
                         .batch = {.size = 2, .seq_len = 7}});
}

TEST(PeakActivations, EqualTheMeasuredPeakOfRandomModels) {
  for_random_cases(expect_measured_peaks);
}

TEST(PeakActivations, ScaleWithTheMicroBatch) {
  for_random_cases([](const Case& c) {
    for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      const auto peak = [&](std::size_t size) {
        return peak_activation_bytes(shape_of(c.config), {size, c.batch.seq_len},
                                     Precision::kBf16Mixed, {.mode = mode});
      };
      EXPECT_EQ(peak(4), 4 * peak(1)) << to_string(mode);
    }
  });
}

}  // namespace
}  // namespace ultra::memory
