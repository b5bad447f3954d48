#include "chapters/01_memory/memory.hpp"

#include "tests/support/programs/table_row.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::memory {
namespace {

using ultra::test::row;

// h 8, kv 8, f 16, V 256, L 1, e 4, 2 x 4 tokens:
// parameters 2 V h + (2 h^2 + 2 h kv + 3 h f + 2 h) + h = 4096 + 656 + 8 = 4760, 19,040 bytes;
// activations 4 * 8 tokens * (6 h + 2 kv + 3 f + a + 2 = 116, and 2 h + 1 + V = 273) + 8 * 4
//   = 32 * 389 + 32 = 12,480 bytes.
class MemoryTable : public ::testing::Test {
 protected:
  MemoryTable() {
    options.model = {.vocab_size = 256,
                     .hidden_size = 8,
                     .num_layers = 1,
                     .num_heads = 2,
                     .num_kv_heads = 2,
                     .ffn_hidden_size = 16,
                     .max_seq_len = 4};
    options.micro_batch = 2;
    result.parameters = 4760;
    result.ranks.emplace_back();
    rank().reserved_bytes = 123'456;
    rank().system_allocations = 42;
  }

  train::RankSummary& rank() { return result.ranks.front(); }

  void add(const char* phase, MemoryCategory category, std::size_t bytes) {
    tracker.set_phase(phase);
    tracker.add(category, bytes);
    rank().memory = tracker;
  }

  [[nodiscard]] std::string table() const {
    return format_memory_table(options, all_in(options.dtype), {}, result);
  }

  train::TrainOptions options;
  train::TrainResult result;
  MemoryTracker tracker;
};

TEST_F(MemoryTable, ShowsPredictedMeasuredAndWhere) {
  add("setup", MemoryCategory::kParameters, 19'040);
  add("step 1: head and loss", MemoryCategory::kActivations, 12'480);
  EXPECT_EQ(row(table(), "parameters"), "parameters 19.0 kB 19.0 kB exact 19.0 kB setup");
  EXPECT_EQ(row(table(), "activations"),
            "activations 12.5 kB 12.5 kB exact 12.5 kB step 1: head and loss");
  EXPECT_THAT(table(), HasSubstr("4,760 parameters, micro-batch 2 x 4 tokens, recompute none"));
}

TEST_F(MemoryTable, SaysHowFarAMeasurementIsOff) {
  add("setup", MemoryCategory::kParameters, 19'040 + 190);    // 0.998 % more
  add("step 1", MemoryCategory::kOptimizer, 2 * 19'040 / 2);  // half
  EXPECT_THAT(row(table(), "parameters"), HasSubstr("+1.00%"));
  EXPECT_THAT(row(table(), "optimizer"), HasSubstr("38.1 kB 19.0 kB -50.00%"));
}

TEST_F(MemoryTable, OtherBytesHaveNoPredictionAndUnusedCategoriesNoRow) {
  add("step 1: forward", MemoryCategory::kOther, 700);
  EXPECT_EQ(row(table(), "other"), "other - 700 B 700 B step 1: forward");
  EXPECT_EQ(row(table(), "communication"), "no row communication");
}

TEST_F(MemoryTable, ShowsWhatEachCategoryHeldAtTheHighestTotal) {
  add("setup", MemoryCategory::kParameters, 19'040);
  add("step 2: head and loss", MemoryCategory::kActivations, 12'480);
  tracker.remove(MemoryCategory::kActivations, 12'480);
  add("step 2: optimizer", MemoryCategory::kOptimizer, 12'000);
  EXPECT_EQ(row(table(), "total"), "total 31.5 kB step 2: head and loss") << "19,040 + 12,480";
  EXPECT_THAT(row(table(), "activations"), HasSubstr("exact 12.5 kB step 2"));
  EXPECT_THAT(row(table(), "optimizer"), HasSubstr("% 0 B step 2: optimizer"))
      << "not there yet at the peak";
  EXPECT_THAT(table(), HasSubstr("The pool holds 123 kB from the system, taken in 42 requests."));
}

}  // namespace
}  // namespace ultra::memory
