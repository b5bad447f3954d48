// The chapter's promises, through whole training runs: micro-batches and recomputation change no
// number, and the closed forms say what memory they take.

#include "chapters/01_memory/memory.hpp"
#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/01_memory/model_presets.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"
#include "tests/support/training/plain_training.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::memory {
namespace {

train::TrainResult chapter_run(const train::TrainOptions& options,
                               const RecomputeConfig& recompute = {}) {
  const std::string flags = fmt::format("--recompute {} --recompute-every {}",
                                        to_string(recompute.mode), recompute.recompute_every);
  train::TrainResult result;
  static_cast<void>(test::printed_by([&] {
    run_ranks(1, [&](Communicator& world) {
      result =
          train::train_with(test::setup_of(options, 1, train::list_of(technique()), flags), world);
    });
  }));
  return result;
}

constexpr double kPromise = 1e-12;

void expect_equal_runs(const train::TrainResult& actual, const train::TrainResult& expected,
                       double relative) {
  ASSERT_EQ(actual.steps.size(), expected.steps.size());
  for (std::size_t i = 0; i < expected.steps.size(); ++i) {
    const train::StepMetrics& a = actual.steps[i];
    const train::StepMetrics& e = expected.steps[i];
    EXPECT_LE(std::abs(a.loss - e.loss), relative * e.loss) << "step " << e.step;
    EXPECT_LE(std::abs(a.grad_norm - e.grad_norm), relative * e.grad_norm) << "step " << e.step;
  }
}

std::size_t peak_of(const train::TrainResult& result, MemoryCategory category) {
  return result.ranks.at(0).memory.peak(category).bytes;
}

class ChapterTraining : public test::RandomTest {
 protected:
  /// A legal run of a few steps; the seed is the test's.
  train::TrainOptions random_run() {
    train::TrainOptions options = test::short_run();
    options.model = test::random_model_config(random);
    options.model.vocab_size = data::kByteVocabulary + random.between(0, 40);
    options.micro_batch = random.between(1, 4);
    options.global_batch = options.micro_batch * random.between(1, 3);
    options.dtype = random.pick({DType::kF32, DType::kF64});
    options.seed = seed;
    return options;
  }

  RecomputeConfig random_recompute() {
    const Recompute mode = random.pick({Recompute::kNone, Recompute::kSelective, Recompute::kFull});
    return {.mode = mode, .recompute_every = mode == Recompute::kFull ? random.between(1, 4) : 1};
  }
};

TEST_F(ChapterTraining, MicroBatchesChangeNoLossAndNoGradient) {
  train::TrainOptions options = test::short_run();
  options.dtype = DType::kF64;
  options.seed = seed;
  options.global_batch = options.micro_batch = 12;
  const train::TrainResult whole = chapter_run(options);
  for (const std::size_t micro_batch : {1U, 2U, 3U, 4U, 6U}) {
    SCOPED_TRACE(fmt::format("micro-batch {}", micro_batch));
    options.micro_batch = micro_batch;
    const train::TrainResult split = chapter_run(options);
    expect_equal_runs(split, whole, kPromise);
    EXPECT_EQ(12 * (peak_of(split, MemoryCategory::kActivations) / micro_batch),
              peak_of(whole, MemoryCategory::kActivations))
        << "activations are those of one micro-batch";
  }
}

TEST_F(ChapterTraining, RecomputationChangesNoBit) {
  for (const DType dtype : test::kFloatDTypes) {
    train::TrainOptions options = random_run();
    options.dtype = dtype;
    options.model.num_layers = 4;
    const train::TrainResult none = chapter_run(options);
    for (const RecomputeConfig& config :
         {RecomputeConfig{.mode = Recompute::kSelective}, RecomputeConfig{.mode = Recompute::kFull},
          RecomputeConfig{.mode = Recompute::kFull, .recompute_every = 2},
          RecomputeConfig{.mode = Recompute::kFull, .recompute_every = 3},
          RecomputeConfig{.mode = Recompute::kFull, .recompute_every = 9}}) {
      SCOPED_TRACE(fmt::format("{} every {}", to_string(config.mode), config.recompute_every));
      expect_equal_runs(chapter_run(options, config), none, 0.0);
    }
  }
}

TEST_F(ChapterTraining, AHeadInPiecesChangesNoLossAndNoGradient) {
  for (int round = 0; round < 6; ++round) {
    train::TrainOptions options = random_run();
    options.dtype = DType::kF64;
    options.model.tied_embeddings = random.pick({false, true});
    const train::TrainResult whole = chapter_run(options);
    for (const std::size_t pieces : {std::size_t{2}, random.between(2, 5)}) {
      options.model.head_chunks = std::min(pieces, options.model.max_seq_len);
      SCOPED_TRACE(fmt::format("{} pieces", options.model.head_chunks));
      expect_equal_runs(chapter_run(options, random_recompute()), whole, kPromise);
    }
  }
}

TEST_F(ChapterTraining, WrittenPartsTrainLikeTheLibrarys) {
  train::TrainOptions options = test::short_run();
  options.dtype = DType::kF64;
  // The norm's backward and the update sum in another order than the library's: some roundings of
  // the hidden size and of AdamW's few operations, in each of 5 steps.
  expect_equal_runs(chapter_run(options), test::train_quietly(options), 1e-10);
}

TEST_F(ChapterTraining, MemoryIsThatOfTheClosedForms) {
  for (int round = 0; round < 12; ++round) {
    train::TrainOptions options = random_run();
    options.steps = 2;
    const RecomputeConfig recompute = random_recompute();
    options.model.head_chunks = round % 2 == 0 ? 1 : random.between(1, options.model.max_seq_len);
    const nn::ModelConfig& m = options.model;
    SCOPED_TRACE(fmt::format("L {} h {} a {} kv {} f {} V {} s {} b {} of {}, {}, {} every {}",
                             m.num_layers, m.hidden_size, m.num_heads, m.num_kv_heads,
                             m.ffn_hidden_size, m.vocab_size, m.max_seq_len, options.micro_batch,
                             options.global_batch, to_string(options.dtype),
                             to_string(recompute.mode), recompute.recompute_every));
    const train::TrainResult result = chapter_run(options, recompute);
    const std::size_t h = m.hidden_size;
    const std::size_t kv = m.num_kv_heads * (h / m.num_heads);
    const std::size_t block = 2 * h * h + 2 * h * kv + 3 * h * m.ffn_hidden_size + 2 * h;
    const std::size_t parameters = 2 * m.vocab_size * h + m.num_layers * block + h;
    const std::size_t e = size_of(options.dtype);
    EXPECT_EQ(result.parameters, parameters);
    EXPECT_EQ(peak_of(result, MemoryCategory::kParameters), parameters * e);
    EXPECT_EQ(peak_of(result, MemoryCategory::kGradients), parameters * e);
    EXPECT_EQ(peak_of(result, MemoryCategory::kOptimizer), 2 * parameters * e);

    const BatchShape batch{
        .size = options.micro_batch, .seq_len = m.max_seq_len, .head_chunks = m.head_chunks};
    EXPECT_EQ(peak_of(result, MemoryCategory::kActivations),
              peak_activation_bytes(shape_of(m), batch, precision_of(options.dtype), recompute));
    if (recompute.mode == Recompute::kNone && m.head_chunks == 1) {
      const std::size_t per_block = 6 * h + 2 * kv + 3 * m.ffn_hidden_size + m.num_heads + 2;
      const std::size_t head = 2 * h + 1 + m.vocab_size;
      EXPECT_EQ(peak_of(result, MemoryCategory::kActivations),
                batch.tokens() * (4 + e * (m.num_layers * per_block + head)))
          << "what is saved, tensor by tensor";
    }
  }
}

}  // namespace
}  // namespace ultra::memory
