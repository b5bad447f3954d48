#pragma once
/// @file
/// Random trainings of models that are cut into stages, on meshes dp x pp x cp x tp.

#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "tests/chapters/06_context_parallel/context_run.hpp"

namespace ultra::pipeline_parallel::test {

using namespace ultra::test;

using ultra::test::Axes;
using ultra::test::expect_same_on_all;
using ultra::test::losses_and_norms;
using ultra::test::MeshCase;
using ultra::test::quietly;
using ultra::test::RankRun;

/// @brief The techniques of the chapter's program.
inline train::Techniques techniques() {
  train::Techniques list = context_parallel::test::techniques();
  list.push_back(technique());
  return list;
}

/// @brief Parts of the model that a schedule wants.
inline std::size_t parts_of(const std::string& schedule, std::size_t pp) {
  return placement_of(parse_schedule_choice(schedule), pp).parts();
}

/// @brief Random small runs of models that can be cut into stages.
class PipelineTest : public ultra::test::MeshTest {
 protected:
  /// Micro-batches of one sequence.
  MeshCase draw(const Axes& axes, const std::string& schedule, DType dtype) {
    MeshCase c = MeshTest::draw(axes, dtype, {.sequence_multiple = axes.tp});
    c.techniques = techniques;
    c.of_one_rank = collectives::test::of_one_rank;
    c.layout = "--schedule " + schedule;
    c.micro_batch = 1;
    c.options.model.num_layers = parts_of(schedule, axes.pp) + random.between(0, 2);
    if (axes.cp > 1) c.options.model.max_seq_len = 8 * random.between(1, 2);
    c.options.doc_length = random.pick({0U, 0U, 4U});
    return c;
  }

  /// Cuts each replica's share into so many micro-batches of one or two sequences, the last smaller
  /// at times.
  void cut(MeshCase& c, std::size_t micro_batches) {
    c.micro_batch = random.between(1, 2);
    const std::size_t rest = c.micro_batch == 2 ? random.between(0, 1) : 0;
    c.options.global_batch = c.axes.dp * (micro_batches * c.micro_batch - rest);
  }
};

}  // namespace ultra::pipeline_parallel::test
