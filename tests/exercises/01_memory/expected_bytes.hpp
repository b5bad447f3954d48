#pragma once
/// @file
/// Chapter 01's closed forms held against right bytes; a difference is compared with what typical
/// mistakes add or leave out.

#include <map>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/01_memory/model_presets.hpp"
#include "chapters/01_memory/recompute.hpp"
#include "common/nn/model.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::memory::measured {

/// A small model of ours and what one pass works on.
struct Case {
  nn::ModelConfig config;
  BatchShape batch;

  [[nodiscard]] std::string str() const {
    return fmt::format(
        "layers {} hidden {} heads {} kv_heads {} ffn {} vocab {} micro-batch {} seq {}",
        config.num_layers, config.hidden_size, config.num_heads, config.num_kv_heads,
        config.ffn_hidden_size, config.vocab_size, batch.size, batch.seq_len);
  }
};

/// A legal model with odd widths and grouped heads.
inline Case random_case(ultra::test::Random& random) {
  const std::size_t kv_heads = random.between(1, 3);
  const std::size_t heads = kv_heads * random.between(1, 3);
  const std::size_t seq = random.between(1, 9);
  return {.config = {.vocab_size = random.between(2, 80),
                     .hidden_size = heads * 2 * random.between(1, 3),
                     .num_layers = random.between(1, 4),
                     .num_heads = heads,
                     .num_kv_heads = kv_heads,
                     .ffn_hidden_size = random.between(1, 50),
                     .max_seq_len = seq},
          .batch = {.size = random.between(1, 3), .seq_len = seq}};
}

/// Calls check(case) on random models until one fails; a failure prints the seed and the case.
template <class Check>
void for_random_cases(const Check& check) {
  const std::uint64_t seed = ultra::test::seed_of_this_run();
  ultra::test::Random random(seed);
  for (int i = 0; i < 6 && !testing::Test::HasFailure(); ++i) {
    const Case drawn = random_case(random);
    SCOPED_TRACE(fmt::format("model {} of seed {}: {}; ULTRA_TEST_SEED={} repeats this run", i,
                             seed, drawn.str(), seed));
    check(drawn);
  }
}

/// The saved tensors of one pass: path -> bytes, each storage once. Highest bytes per category.
struct Measured {
  std::map<std::string, std::size_t> saved;
  MemoryTracker memory;

  [[nodiscard]] std::size_t saved_under(std::string_view prefix) const {
    std::size_t bytes = 0;
    for (const auto& [path, size] : saved) {
      if (path.starts_with(prefix)) bytes += size;
    }
    return bytes;
  }
};

/// One forward and backward pass. The caller's handle on the logits is gone before backward: it
/// would keep the loss's gradient alive.
inline Measured measure_step(const Case& c, DType dtype, const RecomputeConfig& config = {}) {
  const Device device = Device::cpu();
  nn::DenseFactory dense;
  RecomputeFactory factory(dense, config);
  nn::Model model(c.config, device, dtype, 1, factory);
  const Shape tokens_shape{c.batch.size, c.batch.seq_len};
  const Tensor tokens = Tensor::zeros(device, tokens_shape, DType::kI32);
  const Tensor targets = Tensor::zeros(device, tokens_shape, DType::kI32);
  Measured measured;
  nn::Saved saved;
  {
    const Tensor logits = model.forward(tokens, saved);
    (void)model.loss(logits, targets, count_of(c.batch.tokens()), saved);
  }
  std::vector<Tensor> seen;
  saved.for_each([&](const std::string& path, const Tensor& tensor) {
    const bool shared = std::any_of(seen.begin(), seen.end(), [&](const Tensor& other) {
      return other.shares_storage(tensor);
    });
    if (!shared) measured.saved[path] = tensor.storage_bytes();
    seen.push_back(tensor);
  });
  seen.clear();
  model.backward(saved);
  measured.memory = device.memory();
  return measured;
}

/// A typical mistake: what it adds to the right value (negative: leaves out), and what to say.
struct Suspect {
  std::size_t extra = 0;
  std::size_t missing = 0;
  const char* hint = "";
};

inline constexpr const char* kKvWidth =
    "key and value have num_kv_heads heads, not num_heads: their projections are h x kv.";
inline constexpr const char* kTwoMoments =
    "Adam keeps two numbers per parameter in full precision, momentum and variance: 8 bytes.";
inline constexpr const char* kLargerMoment =
    "the head's tensors are gone before a block is recomputed: take the larger of the two moments, "
    "not their sum.";

/// The first suspect that explains the difference; else what to look at.
inline std::string diagnosis(std::size_t found, std::size_t expected,
                             const std::vector<Suspect>& suspects) {
  for (const auto& [extra, missing, hint] : suspects) {
    if (extra != missing && found + missing == expected + extra) {
      return fmt::format("Hint: {}", hint);
    }
  }
  return fmt::format("{} too {}.", found > expected ? found - expected : expected - found,
                     found > expected ? "many" : "few");
}

inline std::vector<Suspect> parameter_suspects(const TransformerShape& s) {
  const std::size_t h = s.hidden_size;
  const std::size_t table = s.vocab_size * h;
  const bool tied = s.embeddings == Embeddings::kTied;
  return {
      {.extra = 0,
       .missing = tied ? 0 : table,
       .hint =
           "an untied model has two V x h tables: the token embedding and the output projection."},
      {.extra = tied ? table : 0,
       .missing = 0,
       .hint = "tied embeddings are one V x h table: count it once."},
      {.extra = 2 * s.num_layers * h * (h - s.kv_hidden_size()), .hint = kKvWidth},
      {.missing = s.num_positions * h, .hint = "the table of learned positions has weights too."},
      {.missing = h, .hint = "a last norm, with its weight, follows the last block."},
      {.missing = 2 * h, .hint = "a last norm, with weight and bias, follows the last block."},
      {.missing = s.num_layers * h * s.ffn_hidden_size,
       .hint = "SwiGLU has three matrices: gate, up and down."},
      {.missing = s.num_layers * (s.ffn_hidden_size + 5 * h),
       .hint = "GPT's linear maps have biases: 3 h + h in attention, f + h behind it."}};
}

inline void expect_parameter_count(const TransformerShape& shape, std::size_t expected) {
  const std::size_t found = parameter_count(shape);
  EXPECT_EQ(found, expected) << shape.name << ": "
                             << diagnosis(found, expected, parameter_suspects(shape));
}

inline TransformerShape gpt_shape(std::size_t layers, std::size_t hidden, std::size_t heads) {
  TransformerShape shape = find_preset("gpt3-175b");
  shape.name = fmt::format("GPT of {} layers of {}", layers, hidden);
  shape.num_layers = layers;
  shape.hidden_size = hidden;
  shape.num_heads = shape.num_kv_heads = heads;
  shape.ffn_hidden_size = 4 * hidden;
  shape.vocab_size = 51200;
  return shape;
}

inline void expect_state_bytes(NumberFormats precision, const StateBytes& expected) {
  const StateBytes found = bytes_per_parameter(precision);
  EXPECT_EQ(found.parameters, expected.parameters) << to_string(precision) << ": weights";
  EXPECT_EQ(found.gradients, expected.gradients)
      << to_string(precision)
      << ": gradients. fp32 accumulation is a second buffer of 4 bytes beside the bf16 gradients.";
  // 8 instead of 12 is one moment too few, or no master weights: fp32, which has none, tells.
  const bool one_moment = bytes_per_parameter(NumberFormats::kFp32).optimizer == 4;
  const std::size_t number = precision == NumberFormats::kFp64 ? 8 : 4;
  EXPECT_EQ(found.optimizer, expected.optimizer)
      << to_string(precision) << ": optimizer states. "
      << diagnosis(found.optimizer, expected.optimizer,
                   {{.missing = number,
                     .hint = one_moment ? kTwoMoments
                                        : "mixed precision adds fp32 master weights to the "
                                          "optimizer's states: 4 + 8 bytes."},
                    {.missing = 2 * number, .hint = kTwoMoments}});
}

inline std::size_t all_blocks(const TransformerShape& shape, const BatchShape& batch,
                              Recompute mode) {
  return shape.num_layers * block_activation_bytes(shape, batch, NumberFormats::kBf16Mixed, mode);
}

inline void expect_block_bytes(const Case& c, DType dtype, Recompute mode, std::size_t expected) {
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

inline void expect_peak(const Case& c, DType dtype, const RecomputeConfig& config,
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
    suspects.push_back(
        {.extra = input,
         .hint = "a group's kept input is its first block's input: one tensor, counted once."});
    suspects.push_back({.extra = head, .hint = kLargerMoment});
  }
  EXPECT_EQ(found, expected) << "recompute " << to_string(config.mode) << ", every "
                             << config.recompute_every << ", " << ultra::to_string(dtype) << ": "
                             << diagnosis(found, expected, suspects);
}

inline std::vector<RecomputeConfig> all_configs(std::size_t layers) {
  std::vector<RecomputeConfig> configs = {{}, {.mode = Recompute::kSelective}};
  for (std::size_t every = 1; every <= layers + 1; ++every) {
    configs.push_back({.mode = Recompute::kFull, .recompute_every = every});
  }
  return configs;
}

inline void expect_measured_peaks(const Case& c) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    const Measured without = measure_step(c, dtype);
    for (const RecomputeConfig& config : all_configs(c.config.num_layers)) {
      const MemoryTracker memory = measure_step(c, dtype, config).memory;
      expect_peak(c, dtype, config, without, memory.peak(MemoryCategory::kActivations).bytes);
    }
  }
}

}  // namespace ultra::memory::measured
