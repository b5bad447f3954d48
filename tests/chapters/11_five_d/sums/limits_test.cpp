// What --sums tree refuses, with its numbers. Pairs of flags that do not go together are those of
// composition/combinations_test.cpp, too.
#include "chapters/11_five_d/sums/limits.hpp"

#include "tests/chapters/11_five_d/composition/configuration.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::five_d {
namespace {

/// Flags, and context parallelism that has trees.
std::vector<test::Flag> with_cp(std::vector<test::Flag> flags, const std::string& cp) {
  for (const auto& [flag, value] : {std::pair<std::string, std::string>{"--cp", cp},
                                    {"--cp-layout", "contiguous"},
                                    {"--cp-method", "all-gather"}}) {
    flags.emplace_back(flag, value);
  }
  return flags;
}

/// Why the program refuses flags beside --sums tree; empty when it does not.
std::string refusal_of_trees_with(std::vector<test::Flag> flags) {
  flags.emplace_back("--sums", "tree");
  flags.emplace_back("--data", ultra::test::kText);
  return test::refusal_of({.model = std::move(flags), .layout = {}});
}

TEST(TreeSumsLimits, SizesWithoutNodesAreRefusedWithTheirNumbers) {
  const std::pair<std::vector<test::Flag>, std::vector<std::string>> refused[] = {
      {{{"--seq", "8"}}, {"--seq is 8", "at least 9"}},
      {{{"--micro-batch", "3"}, {"--global-batch", "6"}},
       {"a micro-batch has 3 sequences", "1, 2, 4, 8", "power of two that divides"}},
      {{{"--dp", "2"}, {"--micro-batch", "1"}, {"--global-batch", "6"}},
       {"a replica of --dp 2 has 3 sequences", "--dp times a power of two"}},
      {{{"--dp", "3"}, {"--zero", "2"}, {"--micro-batch", "1"}, {"--global-batch", "12"}},
       {"a node of 1, 2, 4, 8, ... replicas", "--dp 3", "Use --zero 1"}},
      {{{"--dp", "3"},
        {"--experts", "3"},
        {"--ep", "3"},
        {"--micro-batch", "1"},
        {"--global-batch", "12"}},
       {"with --ep, replicas", "--dp 3", "Use --ep 1"}},
      {{{"--dp", "6"},
        {"--experts", "3"},
        {"--ep", "3"},
        {"--micro-batch", "1"},
        {"--global-batch", "6"}},
       {"all 6 of --dp times --cp", "found --ep 3"}},
      {{{"--tp", "2"}, {"--kv-heads", "4"}, {"--experts", "4"}, {"--expert-ffn", "10"}},
       {"cannot cut the width of an expert", "2 parts of 5"}},
      {{{"--dp", "3"}, {"--micro-batch", "1"}, {"--global-batch", "8"}},
       {"--dp must divide --global-batch", "8 % 3 = 2"}},
      {{{"--tp", "2"}, {"--ffn", "24"}, {"--heads", "4"}, {"--kv-heads", "1"}},
       {"--tp must divide --kv-heads", "1 % 2 = 1"}},
      {{{"--tp", "2"}, {"--heads", "2"}, {"--kv-heads", "2"}, {"--ffn", "10"}},
       {"cannot cut --ffn, 10, among --tp 2 ranks", "blocks of 10 elements", "2 parts of 5"}},
      {{{"--tp", "2"}, {"--heads", "2"}, {"--kv-heads", "2"}, {"--head-dim", "6"}},
       {"the width of all queries", "12, among --tp 2"}},
      {{{"--tp", "2"}, {"--heads", "4"}, {"--kv-heads", "2"}, {"--head-dim", "8"}},
       {"the width of all keys", "16, among --tp 2"}},
      {{{"--tp", "2"}, {"--vocab", "257"}}, {"cannot cut --vocab, 257", "257 / 2"}},
      {{{"--tp", "2"},
        {"--qk-norm", ""},
        {"--heads", "12"},
        {"--kv-heads", "6"},
        {"--head-dim", "16"}},
       {"--qk-norm has one weight", "found 6 of --heads and 3 of --kv-heads"}},
      {{{"--tp", "2"},
        {"--attention", "mla"},
        {"--heads", "6"},
        {"--kv-heads", "6"},
        {"--v-head-dim", "16"}},
       {"one rotated part of keys for all heads", "found 3 of --heads"}},
      {{{"--tp", "2"},
        {"--attention", "mla"},
        {"--heads", "2"},
        {"--kv-heads", "2"},
        {"--v-head-dim", "6"}},
       {"the width of all values", "12, among --tp 2"}},
      {{{"--tp", "2"}, {"--sp", "on"}, {"--seq", "14"}, {"--heads", "2"}, {"--kv-heads", "2"}},
       {"cannot cut --seq, 14, among 2 ranks (--cp 1, --tp 2 --sp on)", "2 parts of 7"}},
      {with_cp({{"--seq", "24"}, {"--micro-batch", "1"}, {"--global-batch", "1"}}, "4"),
       {"cannot cut --seq, 24, among 4 ranks (--cp 4)", "4 parts of 6"}},
      {with_cp({{"--micro-batch", "2"}, {"--global-batch", "2"}}, "2"),
       {"with --cp 2", "is one sequence; found 2 of them", "Use --micro-batch 1"}},
  };
  for (const auto& [flags, parts] : refused) {
    const std::string refusal = refusal_of_trees_with(flags);
    EXPECT_THAT(refusal, StartsWith("--sums tree"));
    for (const std::string& part : parts) EXPECT_THAT(refusal, HasSubstr(part));
  }
}

TEST(TreeSumsLimits, OtherFlagsAreRefusedWithTheirReason) {
  const std::pair<std::vector<test::Flag>, const char*> refused[] = {
      {{{"--cp", "2"}}, "a rank's two chunks are two nodes"},
      {{{"--cp", "2"}, {"--cp-layout", "contiguous"}}, "all-gather or ulysses"},
      {{{"--cp", "4"},
        {"--cp-layout", "contiguous"},
        {"--cp-method", "ulysses+ring"},
        {"--cp-ulysses", "2"},
        {"--kv-heads", "4"}},
       "all-gather or ulysses"},
      {{{"--tp", "2"}, {"--sp", "on"}, {"--tp-overlap", "ring"}}, "the order of its hops"},
      {{{"--experts", "4"}, {"--capacity-factor", "1"}, {"--capacity-group", "micro-batch"}},
       "which tokens an expert drops"},
      {{{"--mtp", ""}}, "table and head are used twice"},
      {{{"--head-chunks", "2"}}, "sums over pieces"},
      {{{"--head-z-loss", "0.1"}}, "not those of the trees"},
      {{{"--attention", "mla-absorbed"}, {"--kv-heads", "4"}, {"--tp", "2"}},
       "the key and the value of all heads"},
      {{{"--dp", "4"}, {"--zero", "1"}, {"--hybrid-shard", "2"}}, "nodes of ranks"},
      {{{"--dp", "2"}, {"--compress", "int8"}}, "what travels is rounded"},
      {{{"--dp", "2"}, {"--zero", "1"}, {"--offload", "optimizer"}}, "blocks of its own"},
      {{{"--pp", "2"}, {"--schedule", "pipedream-async"}, {"--clip", "0"}}, "no tree joins"},
      {{{"--precision", "fp16"}, {"--loss-scale", "none"}}, "trees are of bf16, f32 and f64"},
      {{{"--precision", "fp8"}}, "trees are of bf16, f32 and f64"},
      {{{"--precision", "bf16-pure"}}, "rounded once per micro-batch"},
      {{{"--precision", "bf16"}, {"--grad-dtype", "bf16"}}, "Use --precision bf16"},
      {{{"--precision", "bf16"}, {"--round-sums", "norms"}}, "after every addition"},
      {{{"--optimizer-state", "bf16"}}, "cut where shards are"},
      {{{"--loss-scale", "1024"}}, "have no scale"},
      {{{"--device", "emulated"}, {"--matmul", "ours"}}, "those products have no trees"},
      {{{"--collectives", "native"}}, "an order of its own"},
      {{{"--all-reduce", "ring"}}, "pairwise-tree"},
      {{{"--dp", "2"}, {"--zero", "1"}, {"--reduce-scatter", "ring"}}, "pairwise-tree"},
  };
  for (const auto& [flags, reason] : refused) {
    const std::string refusal = refusal_of_trees_with(flags);
    EXPECT_THAT(refusal, HasSubstr(" does not go together with --sums tree: "));
    EXPECT_THAT(refusal, HasSubstr(reason));
  }
}

TEST(TreeSumsLimits, WhatHasNodesIsTaken) {
  const std::vector<test::Flag> taken[] = {
      {},
      {{"--device", "emulated"}, {"--dp", "2"}},
      {{"--dp", "3"}, {"--global-batch", "12"}, {"--micro-batch", "2"}},
      {{"--global-batch", "6"}, {"--micro-batch", "2"}},
      {{"--tp", "2"}, {"--heads", "2"}, {"--kv-heads", "2"}, {"--ffn", "22"}, {"--head-dim", "18"}},
      {{"--tp", "2"}, {"--sp", "on"}, {"--seq", "32"}, {"--heads", "2"}, {"--kv-heads", "2"}},
      {{"--tp", "2"}, {"--precision", "bf16"}, {"--kv-heads", "4"}},
      with_cp({{"--seq", "32"}, {"--micro-batch", "1"}, {"--global-batch", "4"}}, "2"),
      with_cp({{"--seq", "64"},
               {"--micro-batch", "1"},
               {"--zero", "2"},
               {"--tp", "2"},
               {"--sp", "on"},
               {"--kv-heads", "4"}},
              "2"),
      {{"--precision", "bf16"}, {"--master-weights", "off"}, {"--rounding", "stochastic"}},
      {{"--qk-norm", ""}, {"--tp", "2"}, {"--kv-heads", "4"}, {"--optimizer", "muon"}},
      {{"--tied-embeddings", ""}, {"--pp", "2"}, {"--tp", "2"}, {"--kv-heads", "4"}},
      {{"--all-reduce", "pairwise-tree"}},
      {{"--experts", "3"},
       {"--dp", "3"},
       {"--ep", "3"},
       {"--micro-batch", "1"},
       {"--global-batch", "3"}},
      {{"--experts", "4"}, {"--dp", "4"}, {"--ep", "2"}, {"--capacity-factor", "1"}},
      {{"--attention", "mla"}, {"--kv-heads", "4"}, {"--tp", "2"}, {"--sp", "on"}, {"--seq", "32"}},
      {{"--attention", "mla-absorbed"}, {"--kv-heads", "4"}, {"--pp", "2"}},
      {{"--dp", "4"}, {"--zero", "3"}, {"--global-batch", "12"}, {"--micro-batch", "1"}},
      {{"--dp", "3"}, {"--zero", "3"}, {"--global-batch", "12"}, {"--micro-batch", "4"}},
  };
  for (const auto& flags : taken) EXPECT_EQ(refusal_of_trees_with(flags), "");
}

TEST(TreeSumsLimits, OnlyTwoOrdersOfSumsHaveNames) {
  EXPECT_THAT(test::refusal_of({.model = {{"--sums", "exact"}}, .layout = {}}),
              HasSubstr("It must be fast or tree"));
}

}  // namespace
}  // namespace ultra::five_d
