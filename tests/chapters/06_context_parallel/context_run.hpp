#pragma once
/// @file
/// Training runs on a mesh dp x cp x tp, as the program makes them, and the run that they must equal.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "common/base/numeric.hpp"
#include "tests/chapters/03_data_parallel/mesh_run.hpp"

namespace ultra::context_parallel::test {

using collectives::test::expect_near_losses;
using collectives::test::expect_near_weights;
using collectives::test::losses_and_norms;
using collectives::test::run_alone;
using train::test::expect_same_on_all;
using ultra::test::RankRun;

/// @brief A run on a mesh.
struct ContextCase {
  int dp = 1;
  int cp = 1;
  int tp = 1;
  SequenceLayout layout = SequenceLayout::kZigzag;
  MethodChoice choice = {};
  bool sequence_parallel = false;
  std::string more = {};             ///< flags of other chapters
  std::size_t micro_batch = 1;       ///< of a replica; options.micro_batch is for one rank
  train::TrainOptions options = {};  ///< with the length of documents

  [[nodiscard]] int ranks() const { return dp * cp * tp; }
  [[nodiscard]] std::string flags() const {
    std::string all = fmt::format("--dp {} --cp {} --tp {} {}", dp, cp, tp, more);
    if (tp > 1 && sequence_parallel) all += " --sp on";
    if (cp == 1) return all;
    all +=
        fmt::format(" --cp-layout {} --cp-method {}", to_string(layout), to_string(choice.method));
    if (choice.method == ContextMethod::kUlyssesRing) {
      all += fmt::format(" --cp-ulysses {}", choice.ulysses);
    }
    return all;
  }
  [[nodiscard]] std::string str() const {
    const nn::ModelConfig& m = options.model;
    return fmt::format(
        "{}, L {} h {} a {} kv {} f {} s {} {}, documents {}, micro-batch {} of {}, clip {}",
        flags(), m.num_layers, m.hidden_size, m.num_heads, m.num_kv_heads, m.ffn_hidden_size,
        m.max_seq_len, to_string(options.dtype), options.doc_length, micro_batch,
        options.global_batch, options.clip_norm);
  }
  /// The program's, but for micro-batches that need not divide the global batch.
  [[nodiscard]] train::Setup setup() const {
    train::Setup setup = ultra::test::setup_of(
        options, ranks(),
        train::list_of(memory::technique(), collectives::technique(), data_parallel::technique(),
                       zero::technique(), tensor_parallel::technique(), technique(),
                       data_parallel::test::cutting_into(micro_batch)),
        flags() + fmt::format(" --doc-length {}", options.doc_length));
    for (const auto& technique : setup.techniques) technique->validate_training(setup);
    return setup;
  }
};

/// @brief Random small runs whose sequences can be split, with a watchdog.
class ContextTest : public data_parallel::test::MeshTest {
 protected:
  /// Heads that `ulysses` ranks of each of tp can share, and a sequence of at least one token a chunk.
  nn::ModelConfig draw_model(std::size_t tp, std::size_t ulysses, std::size_t chunks,
                             bool splits_tokens) {
    nn::ModelConfig model;
    model.num_kv_heads = tp * ulysses * random.between(1, 2);
    model.num_heads = model.num_kv_heads * random.between(1, 2);
    model.hidden_size = model.num_heads * 2 * random.between(1, 2);
    model.num_layers = random.between(1, 3);
    model.ffn_hidden_size = tp * random.between(1, 5);
    model.vocab_size = data::kByteVocabulary + random.between(0, 2 * tp);
    model.max_seq_len = random.between(chunks, 3 * chunks + 5);
    if (splits_tokens) model.max_seq_len = ceil_div(model.max_seq_len, tp) * tp;
    return model;
  }

  /// @param choice  its cp and ulysses are those of the mesh.
  ContextCase draw(int dp, int tp, const MethodChoice& choice, DType dtype) {
    ContextCase c{.dp = dp,
                  .cp = choice.cp,
                  .tp = tp,
                  .layout = random.pick({SequenceLayout::kContiguous, SequenceLayout::kZigzag}),
                  .choice = choice,
                  .sequence_parallel = tp > 1 && random.pick({true, false}),
                  .micro_batch = random.between(1, 3),
                  .options = ultra::test::random_run(random, seed, dp, dtype)};
    c.options.model =
        draw_model(static_cast<std::size_t>(tp), static_cast<std::size_t>(choice.ulysses),
                   2 * static_cast<std::size_t>(choice.cp), c.sequence_parallel);
    c.options.doc_length = random.pick({0U, 0U, 1U, 3U, 9U});
    return c;
  }

  /// Any method of cp ranks.
  MethodChoice draw_choice(int cp) {
    std::vector<MethodChoice> choices = {
        {.method = ContextMethod::kRing, .cp = cp},
        {.method = ContextMethod::kAllGather, .cp = cp},
        {.method = ContextMethod::kUlysses, .cp = cp, .ulysses = cp}};
    for (int ulysses = 2; ulysses < cp; ++ulysses) {
      if (cp % ulysses != 0) continue;
      choices.push_back({.method = ContextMethod::kUlyssesRing, .cp = cp, .ulysses = ulysses});
    }
    return choices[random.between(0, choices.size() - 1)];
  }
};

}  // namespace ultra::context_parallel::test
