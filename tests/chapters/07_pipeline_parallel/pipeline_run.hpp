#pragma once
/// @file
/// Training runs on a mesh dp x pp x cp x tp, as the program makes them, and the run that they must
/// equal.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "common/base/numeric.hpp"
#include "tests/chapters/03_data_parallel/mesh_run.hpp"

namespace ultra::pipeline_parallel::test {

using collectives::test::expect_near_losses;
using collectives::test::expect_near_weights;
using collectives::test::losses_and_norms;
using collectives::test::run_alone;
using train::test::expect_same_on_all;
using train::test::quietly;
using ultra::test::RankRun;

/// @brief A run on a mesh.
struct PipelineCase {
  int dp = 1;
  int pp = 1;
  int cp = 1;
  int tp = 1;
  std::string schedule = "1f1b";
  std::string more = {};             ///< flags of other chapters
  std::size_t micro_batch = 1;       ///< of a replica; options.micro_batch is for one rank
  train::TrainOptions options = {};  ///< of the model and the training

  [[nodiscard]] int ranks() const { return dp * pp * cp * tp; }
  [[nodiscard]] std::string flags() const {
    return fmt::format("--dp {} --pp {} --cp {} --tp {} --schedule {} {}", dp, pp, cp, tp, schedule,
                       more);
  }
  [[nodiscard]] std::string str() const {
    const nn::ModelConfig& m = options.model;
    return fmt::format(
        "{}, L {} h {} a {} kv {} f {} s {} {}, documents {}, micro-batch {} of {}{}", flags(),
        m.num_layers, m.hidden_size, m.num_heads, m.num_kv_heads, m.ffn_hidden_size, m.max_seq_len,
        to_string(options.dtype), options.doc_length, micro_batch, options.global_batch,
        m.tied_embeddings ? ", tied" : "");
  }
  /// The program's, but for micro-batches that need not divide the global batch.
  [[nodiscard]] train::Setup setup(const ultra::test::Put& put = {}) const {
    train::TrainOptions own = options;
    own.micro_batch = micro_batch;  // what closed forms read
    train::Setup setup = ultra::test::setup_of(
        own, ranks(),
        train::list_of(data_parallel::test::flags_of_every_trainer(), memory::technique(),
                       collectives::technique(), data_parallel::technique(), zero::technique(),
                       zero::offload(), tensor_parallel::technique(), context_parallel::technique(),
                       technique(), data_parallel::test::cutting_into(micro_batch),
                       ultra::test::putting(put)),
        flags() + fmt::format(" --doc-length {}", options.doc_length));
    for (const auto& technique : setup.techniques) technique->validate_training(setup);
    setup.train.micro_batch = options.micro_batch;
    return setup;
  }
};

/// @brief Random small runs of models that can be cut into stages, with a watchdog.
class PipelineTest : public data_parallel::test::MeshTest {
 protected:
  /// @param parts  of the model.
  PipelineCase draw(int dp, int pp, const std::string& schedule, std::size_t parts, DType dtype) {
    PipelineCase c{.dp = dp,
                   .pp = pp,
                   .schedule = schedule,
                   .micro_batch = 1,
                   .options = ultra::test::random_run(random, seed, dp, dtype)};
    c.options.model.num_layers = parts + random.between(0, 2);
    c.options.doc_length = random.pick({0U, 0U, 4U});
    return c;
  }

  /// Cuts each replica's share into so many micro-batches of one or two sequences, the last smaller
  /// at times.
  void cut(PipelineCase& c, std::size_t micro_batches) {
    c.micro_batch = random.between(1, 2);
    const std::size_t rest = c.micro_batch == 2 ? random.between(0, 1) : 0;
    c.options.global_batch =
        static_cast<std::size_t>(c.dp) * (micro_batches * c.micro_batch - rest);
  }

  /// Ranks share the heads.
  static void share_heads(PipelineCase& c, int tp) {
    nn::ModelConfig& model = c.options.model;
    const auto ranks = static_cast<std::size_t>(tp);
    c.tp = tp;
    model.num_kv_heads = ranks;
    model.num_heads = 2 * ranks;
    model.hidden_size = 2 * model.num_heads;
    model.ffn_hidden_size = 3 * ranks;
    model.max_seq_len = ceil_div(model.max_seq_len, ranks) * ranks;
  }
};

}  // namespace ultra::pipeline_parallel::test
