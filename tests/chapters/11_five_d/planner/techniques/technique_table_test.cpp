// Each technique alone: memory, traffic, what hides it.
//
// Covers: chapters/11_five_d/planner/techniques/technique_table.hpp
#include "chapters/11_five_d/planner/techniques/technique_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace ultra::planner {
namespace {

using ::testing::HasSubstr;

constexpr double kParameters = 8030261248.0;
constexpr double kActivation = 2.0 * 4096 * 4096;  // b s h, bf16

Question question(const char* model) {
  return {.work = {.model = *find_model(model), .seq_len = 4096, .global_batch = 64},
          .cluster = *replay::find_cluster("dgx-h100"),
          .software = find_software("modern")};
}

double sent(const Layout& layout) { return sent_bytes(question("llama-8b"), layout); }

TEST(SentBytes, OfReplicasAsThePaperCountsThem) {
  const double share = 7.0 / 8 * kParameters;
  Layout layout{.dp = 8, .zero = zero::ZeroStage::kNone};
  EXPECT_NEAR(sent(layout), 2 * 4 * share, 1e3);
  layout.zero = zero::ZeroStage::kOptimizer;
  EXPECT_NEAR(sent(layout), (4 + 2) * share, 1e3);
  layout.zero = zero::ZeroStage::kGradients;
  EXPECT_NEAR(sent(layout), (8 * 4 + 2) * share, 1e3);
  layout.zero = zero::ZeroStage::kParameters;
  EXPECT_NEAR(sent(layout), 8 * (4 + 2 * 2) * share, 1e3);
}

TEST(SentBytes, OfActivations) {
  Layout tensor{.tp = 8, .zero = zero::ZeroStage::kNone, .sequence_parallel = false};
  EXPECT_NEAR(sent(tensor), 64 * (4 * 32 + 2) * 2 * 7.0 / 8 * kActivation, 1e3);
  tensor.sequence_parallel = true;
  EXPECT_NEAR(sent(tensor), 64 * (10 * 32 + 5) * 7.0 / 8 * kActivation, 1e3);
  const Layout stages{.pp = 8, .zero = zero::ZeroStage::kNone};
  EXPECT_NEAR(sent(stages), 2 * 7 * 64 * kActivation / 8, 1e3);
}

TEST(SentBytes, OneRankSendsNothing) { EXPECT_EQ(sent({.zero = zero::ZeroStage::kNone}), 0); }

TEST(TechniqueRows, EachTakesWhatItPromises) {
  const auto rows =
      technique_rows(question("llama-8b"), 8, memory::NumberFormats::kBf16MixedFp32Grads);
  const auto of = [&](const std::string& name) {
    return *std::ranges::find(rows, name, &TechniqueRow::name);
  };
  EXPECT_NEAR(of("ZeRO-1").prediction->memory.optimizer, of("dp").prediction->memory.optimizer / 8,
              8);
  EXPECT_NEAR(of("ZeRO-3").prediction->memory.parameters,
              of("dp").prediction->memory.parameters / 8, 8);
  EXPECT_LT(of("tp with sp").prediction->memory.activations,
            of("tp").prediction->memory.activations);
  EXPECT_LT(of("pp, zero-bubble-h1").prediction->step.bubble,
            of("pp, 1f1b").prediction->step.bubble);
  EXPECT_LT(of("pp, 1f1b").prediction->memory.activations,
            of("pp, afab").prediction->memory.activations);
  for (const TechniqueRow& row : rows) EXPECT_LE(row.waits, row.unhidden) << row.name;
}

TEST(TechniqueRows, WhatCannotBeSaysWhy) {
  const Question q = question("mixtral-8x7b");
  const auto rows = technique_rows(q, 64, memory::NumberFormats::kBf16Mixed);
  EXPECT_EQ(rows.back().name, "ep");
  const std::string text = format_techniques(q, 64, rows);
  EXPECT_THAT(text, HasSubstr("tp                  cannot be: "));
  EXPECT_THAT(text, HasSubstr("ZeRO-3"));
  const Json json = techniques_to_json(rows);
  EXPECT_EQ(json.size(), rows.size());
  EXPECT_FALSE(json.elements().back()["impossible"].empty());
}

}  // namespace
}  // namespace ultra::planner
