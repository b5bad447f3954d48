#include "chapters/04_zero/estimate/zero_memory_table.hpp"

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "tests/support/programs/table_row.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using ultra::test::row;

/// Rank 0 of two, of a model of 4760 parameters that needs no padding: h 8, kv 8, f 16, V 256, L 1.
/// The embedding and the head have 2048 and 2056 elements, the block 656. Activations of 2 x 4
/// tokens: 12,480 bytes (memory_table_test.cpp of chapter 01).
class ZeroMemoryTable : public ::testing::Test {
 protected:
  ZeroMemoryTable() {
    options.model = {.vocab_size = 256,
                     .hidden_size = 8,
                     .num_layers = 1,
                     .num_heads = 2,
                     .num_kv_heads = 2,
                     .ffn_hidden_size = 16,
                     .max_seq_len = 4};
    options.micro_batch = 2;
    run.model = options.model;
    run.shards = 2;
    run.settings = {.stage = ZeroStage::kParameters, .overlap = Overlap::kOff, .prefetch = 0};
    result.parameters = 4760;
    result.steps.resize(2);
    result.ranks.resize(2);
  }

  void add(const char* phase, MemoryCategory category, std::size_t bytes) {
    tracker.set_phase(phase);
    tracker.add(category, bytes);
    result.ranks.front().memory = tracker;
  }

  [[nodiscard]] std::string table() const {
    const collectives::BookAlgorithms algorithms(
        collectives::BookOptions{.names = {{OpKind::kReduceScatter, "pairwise"}}, .tuning = {}});
    return format_zero_memory_table(options, memory::all_in(options.dtype), {}, run, algorithms,
                                    result);
  }

  train::TrainOptions options;
  ShardedRun run;
  train::TrainResult result;
  MemoryTracker tracker;
};

TEST_F(ZeroMemoryTable, NamesTheStageAndItsNumbers) {
  EXPECT_THAT(table(), HasSubstr("rank 0 went (ZeRO-3: P = 4,760 parameters, N = 2 ranks)"));
}

TEST_F(ZeroMemoryTable, SetsMeasuredBesidePredicted) {
  add("setup", MemoryCategory::kParameters, 9520);
  add("step 1: embedding", MemoryCategory::kGradients, 9520);
  add("step 1: optimizer", MemoryCategory::kOptimizer, 2 * 9520);
  add("step 1: head and loss", MemoryCategory::kActivations, 12'480);
  const std::string text = table();
  EXPECT_EQ(row(text, "parameters"), "parameters 4 P / N 9.52 kB 9.52 kB exact setup");
  EXPECT_EQ(row(text, "gradients"), "gradients 4 P / N 9.52 kB 9.52 kB exact step 1: embedding");
  EXPECT_EQ(row(text, "optimizer"), "optimizer 8 P / N 19.0 kB 19.0 kB exact step 1: optimizer");
  EXPECT_EQ(row(text, "activations"), "activations 12.5 kB 12.5 kB exact step 1: head and loss");
  EXPECT_EQ(row(text, "total"), "total 50.6 kB step 1: head and loss");
}

TEST_F(ZeroMemoryTable, SaysHowFarMeasuredIsFromPredicted) {
  add("setup", MemoryCategory::kParameters, 9520 + 952);
  add("setup", MemoryCategory::kGradients, 9520 - 476);
  EXPECT_THAT(row(table(), "parameters"), HasSubstr(" +10.00% "));
  EXPECT_THAT(row(table(), "gradients"), HasSubstr(" -5.00% "));
}

TEST_F(ZeroMemoryTable, OnlyWhatIsShardedIsDividedByTheRanks) {
  run.settings.stage = ZeroStage::kGradients;
  std::string text = table();
  EXPECT_THAT(row(text, "parameters"), HasSubstr("parameters 4 P 19.0 kB"));
  EXPECT_THAT(row(text, "gradients"), HasSubstr("gradients 4 P / N 9.52 kB"));
  run.settings.stage = ZeroStage::kOptimizer;
  text = table();
  EXPECT_THAT(row(text, "gradients"), HasSubstr("gradients 4 P 19.0 kB"));
  EXPECT_THAT(row(text, "optimizer"), HasSubstr("optimizer 8 P / N 19.0 kB"));
  run.dtype = options.dtype = DType::kF64;
  EXPECT_THAT(row(table(), "optimizer"), HasSubstr("optimizer 16 P / N 38.1 kB"));
}

/// Communication is bounded: the unit with most elements and its gradient, 2 * 2056 * 4 bytes, and
/// half of it as scratch memory.
TEST_F(ZeroMemoryTable, CommunicationHasABound) {
  constexpr std::size_t kBound = 2 * 8224 + 4112;
  add("step 1: backward", MemoryCategory::kCommunication, kBound - 1);
  EXPECT_EQ(row(table(), "communication"),
            "communication units <= 20.6 kB 20.6 kB within step 1: backward");
  add("step 1: backward", MemoryCategory::kCommunication, 1);
  EXPECT_THAT(row(table(), "communication"), HasSubstr(" exact "));
  add("step 1: backward", MemoryCategory::kCommunication, 1);
  EXPECT_THAT(row(table(), "communication"), HasSubstr(" ABOVE "));
  run.settings.stage = ZeroStage::kGradients;
  EXPECT_THAT(row(table(), "communication"), HasSubstr("communication buckets <= "));
}

TEST_F(ZeroMemoryTable, OneRankNeedsNoMemoryToCommunicate) {
  run.shards = 1;
  run.settings.stage = ZeroStage::kOptimizer;
  add("setup", MemoryCategory::kParameters, 1);
  EXPECT_THAT(row(table(), "communication"), HasSubstr("buckets <= 0 B 0 B exact"));
}

TEST_F(ZeroMemoryTable, OtherMemoryIsShownWithoutAPredictionIfThereIsAny) {
  EXPECT_EQ(row(table(), "other"), "no row other");
  add("step 2: forward", MemoryCategory::kOther, 1000);
  EXPECT_EQ(row(table(), "other"), "other - 1.00 kB step 2: forward");
}

TEST_F(ZeroMemoryTable, SaysWhatAStepSends) {
  // Two steps of one micro-batch: a reduce-scatter and two all-gathers of half of 4760 elements,
  // but one of those 2056 that are the head's.
  CommStats& sent = result.ranks.front().communication;
  sent[OpKind::kReduceScatter].sent_bytes = 2 * 9520;
  sent[OpKind::kAllGather].sent_bytes = 2 * (2 * 9520 - 4112);
  sent[OpKind::kAllReduce].sent_bytes = 1'000'000;  // not of gradients or weights
  EXPECT_THAT(table(), HasSubstr("sent in a step: 24.4 kB predicted, 24.4 kB measured."));
}

TEST_F(ZeroMemoryTable, SaysWhatNodesKeepAndSend) {
  EXPECT_THAT(table(), Not(HasSubstr("node")));
  run.settings.plus_plus = {.secondary = SecondaryShards::kInNode, .node_size = 1};
  add("setup", MemoryCategory::kParameters, 9520 + 19'040);
  const std::string text = table();
  EXPECT_THAT(row(text, "parameters"), HasSubstr("exact"));
  EXPECT_THAT(text, HasSubstr("Of the parameters, 19.0 kB are 1/1 of each unit"));
  // A gather for the forward pass and the pairwise reduction; the backward pass needs nobody.
  EXPECT_THAT(text, HasSubstr("the 1 ranks of a node send 19.0 kB to other nodes, with rings"));
}

TEST_F(ZeroMemoryTable, QuantisedWeightsAndGradientsAreSentInFewerBytes) {
  run.settings.plus_plus = {.weights = BlockFormat{}, .gradients = BlockFormat{}};
  // Half of 2048, 656 and 2056 elements: 4, 2 and 5 scales of 4 bytes, and a byte for each element.
  const std::size_t message = 11 * 4 + 2380;
  const std::size_t head = 5 * 4 + 1028;  // gathered once
  CommStats& sent = result.ranks.front().communication;
  sent[OpKind::kAllToAll].sent_bytes = 2 * message;
  sent[OpKind::kAllGather].sent_bytes = 2 * (2 * message - head);
  EXPECT_THAT(table(), HasSubstr("sent in a step: 6.22 kB predicted, 6.22 kB measured."));
}

}  // namespace
}  // namespace ultra::zero
