// The table of --combinations against the program: for each pair of flags its word is what happens.
//
// Covers: chapters/11_five_d/five_d.hpp
// Covers: common/train/elsewhere/record_step.hpp

#include "chapters/11_five_d/five_d.hpp"

#include <set>

#include "common/train/cli/run_techniques.hpp"
#include "common/train/elsewhere/record_step.hpp"
#include "tests/chapters/11_five_d/composition/explained.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::five_d {
namespace {

using five_d::test::Configuration;
using five_d::test::Flag;

/// Flags that ask for something, with those that they need; and what the table calls all of them.
struct Sample {
  std::vector<Flag> flags;
  std::vector<std::string> names;
};

const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = {
      {{{"--dp", "2"}}, {"--dp"}},
      {{{"--tp", "2"}}, {"--tp"}},
      {{{"--cp", "2"}}, {"--cp", "--cp-layout zigzag", "--cp-method ring or ulysses+ring"}},
      {{{"--cp", "2"}, {"--cp-layout", "contiguous"}},
       {"--cp", "--cp-method ring or ulysses+ring"}},
      {{{"--pp", "2"}}, {"--pp"}},
      {{{"--experts", "4"}}, {"--experts"}},
      {{{"--experts", "4"}, {"--capacity-factor", "1"}, {"--capacity-group", "micro-batch"}},
       {"--experts", "--capacity-group micro-batch"}},
      {{{"--tied-embeddings", ""}}, {"a tied token table"}},
      {{{"--mtp", ""}}, {"--mtp"}},
      {{{"--head-z-loss", "0.1"}}, {"--head-z-loss"}},
      {{{"--zero", "1"}}, {"--zero 1, 2 or 3", "--zero 1 or 2"}},
      {{{"--zero", "3"}}, {"--zero 1, 2 or 3", "--zero 3"}},
      {{{"--zero", "3"}, {"--overlap", "none"}}, {"--zero 1, 2 or 3", "--zero 3", "--overlap"}},
      {{{"--zero", "3"}, {"--prefetch", "1"}}, {"--zero 1, 2 or 3", "--zero 3", "--prefetch"}},
      {{{"--zero", "3"}, {"--reshard-after-forward", "no"}},
       {"--zero 1, 2 or 3", "--zero 3", "--reshard-after-forward no"}},
      {{{"--zero", "3"}, {"--zero++", "hierarchical"}, {"--node-size", "1"}},
       {"--zero 1, 2 or 3", "--zero 3", "--zero++", "--zero++ TECHNIQUES",
        "--zero++ hierarchical"}},
      {{{"--zero", "3"}, {"--zero++", "gradients-int8"}},
       {"--zero 1, 2 or 3", "--zero 3", "--zero++", "--zero++ TECHNIQUES",
        "--zero++ gradients-int8"}},
      {{{"--zero", "3"}, {"--hybrid-shard", "1"}},
       {"--zero 1, 2 or 3", "--zero 3", "--hybrid-shard"}},
      {{{"--zero", "3"}, {"--offload", "optimizer+params"}},
       {"--zero 1, 2 or 3", "--zero 3", "--offload", "--offload optimizer+params"}},
      {{{"--zero", "3"}, {"--shards", "rows"}}, {"--zero 1, 2 or 3", "--zero 3", "--shards rows"}},
      {{{"--shards", "rows"}}, {"--shards rows"}},
      {{{"--offload", "optimizer+params"}}, {"--offload", "--offload optimizer+params"}},
      {{{"--freeze", "embed_tokens"}}, {"--freeze"}},
      {{{"--overlap", "none"}}, {"--overlap"}},
      {{{"--overlap", "per-parameter"}}, {"--overlap", "--overlap per-parameter"}},
      {{{"--bucket-mb", "1"}}, {"--bucket-mb"}},
      {{{"--all-reduce", "ring"}}, {"--all-reduce"}},
      {{{"--reduce-scatter", "ring"}}, {"--reduce-scatter"}},
      {{{"--compress", "int8"}}, {"--compress"}},
      {{{"--check-replicas", "1"}}, {"--check-replicas"}},
      {{{"--checkpoint", "saved"}}, {"--checkpoint"}},
      {{{"--val-data", ultra::test::kText}}, {"--val-data"}},
      {{{"--pp", "2"}, {"--schedule", "zb-v"}, {"--layers", "4"}},
       {"--pp", "--schedule zb-v or dualpipe-v"}},
      {{{"--pp", "2"}, {"--schedule", "dualpipe-v"}, {"--layers", "4"}},
       {"--pp", "--schedule zb-v or dualpipe-v"}},
      {{{"--pp", "2"}, {"--schedule", "pipedream-async"}, {"--clip", "0"}},
       {"--pp", "--schedule pipedream-async"}},
      {{{"--pp", "2"}, {"--schedule", "pipedream-async"}}, {"--pp", "--schedule pipedream-async"}},
      {{{"--precision", "bf16"}}, {"--precision bf16, fp16 or fp8"}},
      {{{"--precision", "bf16-pure"}},
       {"--precision bf16, fp16 or fp8", "--precision bf16-pure or --grad-dtype bf16"}},
      {{{"--precision", "bf16"}, {"--round-sums", "loss"}},
       {"--precision bf16, fp16 or fp8", "--round-sums", "--round-sums loss"}},
      {{{"--precision", "fp16"}},
       {"--precision bf16, fp16 or fp8", "--precision fp16 or fp8", "--loss-scale"}},
      {{{"--loss-scale", "1024"}}, {"--loss-scale"}},
      {{{"--optimizer-state", "int8"}}, {"--optimizer-state bf16 or int8"}},
      {{{"--precision", "bf16"}, {"--round-sums", "softmax"}},
       {"--precision bf16, fp16 or fp8", "--round-sums", "--round-sums softmax"}},
      {{{"--optimizer", "muon"}}, {"--optimizer muon"}},
      {{{"--cp", "2"}, {"--cp-method", "ulysses"}},
       {"--cp", "--cp-layout zigzag", "--cp-method ulysses or ulysses+ring"}},
      {{{"--attention", "mla"}, {"--kv-heads", "4"}}, {"--attention mla or mla-absorbed"}},
      {{{"--attention", "mla-absorbed"}, {"--kv-heads", "4"}},
       {"--attention mla or mla-absorbed", "--attention mla-absorbed"}},
      {{{"--attention", "mla-absorbed"}, {"--kv-heads", "4"}, {"--tp", "2"}},
       {"--attention mla or mla-absorbed", "--attention mla-absorbed",
        "--attention mla-absorbed with --tp or --cp", "--tp"}},
      {{{"--precision", "fp8"}},
       {"--precision bf16, fp16 or fp8", "--precision fp16 or fp8", "--precision fp8"}},
      {{{"--sums", "tree"}}, {"--sums tree"}},
      {{{"--tp", "2"}, {"--sp", "on"}}, {"--tp"}},
      {{{"--tp", "2"}, {"--sp", "on"}, {"--tp-overlap", "ring"}}, {"--tp", "--tp-overlap ring"}},
      {{{"--tp", "2"}, {"--qk-norm", ""}}, {"--tp", "--qk-norm with --tp"}},
      {{{"--collectives", "native"}}, {"--collectives native"}},
      {{{"--recompute", "full"}}, {}},
      {{{"--doc-length", "4"}}, {}},
      {{{"--window", "5"}}, {}},
      {{{"--head-chunks", "2"}}, {"--head-chunks"}},
      {{{"--mask", "some"}}, {}}};
  return all;
}

/// Both together; nothing when they give a flag two values.
std::optional<Configuration> joined(const Sample& a, const Sample& b) {
  Configuration both{
      .model = {{"--seq", "16"}, {"--global-batch", "4"}, {"--data", ultra::test::kText}},
      .layout = a.flags};
  for (const Flag& flag : b.flags) {
    const auto found = std::ranges::find(both.layout, flag.first, &Flag::first);
    if (found == both.layout.end()) {
      both.layout.push_back(flag);
    } else if (found->second != flag.second) {
      return {};
    }
  }
  return both;
}

/// What the table calls all that both ask for.
std::vector<std::string> names_of_both(const Sample& a, const Sample& b,
                                       const Configuration& both) {
  std::vector<std::string> names = a.names;
  names.insert(names.end(), b.names.begin(), b.names.end());
  if (both.value_of("--zero") == "3" && both.value_of("--overlap") == "none") {
    names.emplace_back("--zero 3 --overlap none");
  }
  if (both.value_of("--clip") != "0") names.emplace_back("--clip 1");  // the default
  return names;
}

/// The rows of the table that are of two of these names.
std::vector<const train::Conflict*> rows_of(const std::vector<train::Conflict>& table,
                                            const std::vector<std::string>& names) {
  const auto has = [&](const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  std::vector<const train::Conflict*> rows;
  for (const train::Conflict& row : table) {
    if (has(row.first) && has(row.second)) rows.push_back(&row);
  }
  return rows;
}

TEST(Combinations, ForEachPairOfFlagsTheTableSaysWhatTheProgramDoes) {
  const std::vector<train::Conflict> table = test::table_of_combinations();
  std::set<const train::Conflict*> seen;  // rows whose reason was given
  int refused = 0;
  for (std::size_t i = 0; i < samples().size(); ++i) {
    for (std::size_t j = i; j < samples().size(); ++j) {
      const std::optional<Configuration> both = joined(samples()[i], samples()[j]);
      if (!both) continue;
      const std::string refusal = test::refusal_of(*both);
      const auto rows = rows_of(table, names_of_both(samples()[i], samples()[j], *both));
      if (refusal.find(" go together") != std::string::npos) {
        ++refused;
        EXPECT_FALSE(rows.empty()) << both->line() << "\n" << refusal;
      } else if (!rows.empty()) {
        EXPECT_NE(refusal, "") << both->line() << "\n" << rows[0]->first << ", " << rows[0]->second;
      }
      for (const train::Conflict* row : rows) {
        if (refusal.find(row->reason) != std::string::npos) seen.insert(row);
      }
    }
  }
  EXPECT_GT(refused, 60);
  // Answers instead of training, a model of others, what only a file of passes asks for, and a
  // device that this build may not have.
  const std::set<std::string> others = {"--init",
                                        "--simulate",
                                        "--shapes",
                                        "--device cuda",
                                        "--matmul",
                                        "--on",
                                        "several parts on a rank"};
  for (const train::Conflict& row : table) {
    if (others.contains(row.first) || others.contains(row.second)) continue;
    EXPECT_TRUE(seen.contains(&row)) << row.first << ", " << row.second << ": " << row.reason;
  }
}

TEST(Combinations, WhatCannotBeRecordedIsRefusedWithItsReason) {
  const std::vector<std::string> asked = {
      "--init x",
      "--val-data x",
      "--device emulated",
      "--link gbps=1",
      "--dp 2 --compress int8",
      "--dp 2 --check-replicas 1",
      "--dp 4 --zero 3 --zero++ weights-int8",
      "--dp 2 --zero 1 --offload optimizer",
      "--pp 2 --stage-split measured",
      "--precision bf16-pure --rounding stochastic",
      "--optimizer-state int8",
      "--precision bf16 --round-sums norms",
      "--count-updates",
      "--sums tree",
  };
  std::vector<std::string> reasons;
  for (const std::string& flags : asked) {
    try {
      static_cast<void>(train::parse_setup(
          techniques(), ultra::test::words_of("--on dgx-h100 --vocab 256 " + flags)));
      ADD_FAILURE() << flags;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("does not go together with --on: ")) << flags;
      reasons.emplace_back(error.what());
    }
  }
  for (const train::Conflict& row : test::table_of_combinations()) {
    if (row.second != train::kOnFlag) continue;
    EXPECT_THAT(reasons, ::testing::Contains(HasSubstr(row.first + " does not go together")));
  }
}

TEST(Combinations, AReasonThatSeveralRowsHaveIsGivenOnce) {
  const std::string text =
      format_combinations({{.first = "--a", .second = "--bcd 1", .reason = "one reason."},
                           {.first = "--long", .second = "--e", .reason = "one reason."},
                           {.first = "--f", .second = "--g", .reason = "another."}});
  EXPECT_THAT(text, HasSubstr("  --a      --bcd 1   one reason.\n"
                              "  --long   --e       the same\n"
                              "  --f      --g       another.\n"));
}

// Streams of ranks that nobody can run: no two of them touch the same bytes without an order.

TEST(RecordedOrder, OfStreamsOf512Gpus) {
  for (const std::string flags :
       {"--model llama-70b --tp 8 --sp on --pp 8 --dp 8 --zero 1 --recompute selective --seq 4096 "
        "--global-batch 128",
        "--model llama-8b --cp 8 --cp-method ring --zero 3 --seq 65536 --global-batch 64",
        "--model mixtral-8x7b --pp 4 --schedule interleaved:2 --ep 8 --tp 2 --zero 1 --seq 4096 "
        "--global-batch 512"}) {
    SCOPED_TRACE(flags);
    const train::Setup setup = train::parse_setup(
        techniques(), ultra::test::words_of(flags + " --micro-batch 1 --on dgx-h100:64"));
    for (const int rank : train::ranks_that_differ(setup)) {
      EXPECT_NO_THROW(static_cast<void>(train::record_step(setup, rank, true))) << "rank " << rank;
    }
  }
}

}  // namespace
}  // namespace ultra::five_d
