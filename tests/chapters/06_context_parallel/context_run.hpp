#pragma once
/// @file
/// Random trainings on meshes dp x cp x tp.

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "chapters/06_context_parallel/context_parallel.hpp"
#include "tests/chapters/05_tensor_sequence_parallel/split_run.hpp"

namespace ultra::context_parallel::test {

using namespace ultra::test;

using ultra::test::losses_and_norms;
using ultra::test::MeshCase;

/// @brief The techniques of the chapter's program.
inline train::Techniques techniques() {
  train::Techniques list = tensor_parallel::test::techniques();
  list.push_back(technique());
  return list;
}

/// @brief How ranks of cp share sequences.
struct Sharing {
  MethodChoice choice = {};  ///< its cp is that of the mesh
  SequenceLayout layout = SequenceLayout::kZigzag;

  [[nodiscard]] std::string flags() const {
    if (choice.cp == 1) return {};
    return fmt::format("--cp-layout {} --cp-method {}{}", to_string(layout),
                       to_string(choice.method),
                       choice.method == ContextMethod::kUlyssesRing
                           ? fmt::format(" --cp-ulysses {}", choice.ulysses)
                           : "");
  }
};

/// @brief Random small runs whose sequences can be split.
class ContextTest : public ultra::test::MeshTest {
 protected:
  MeshCase draw(std::size_t dp, std::size_t tp, const Sharing& sharing, DType dtype) {
    const bool sequence_parallel = tp > 1 && random.pick({true, false});
    MeshCase c = MeshTest::draw(
        {.dp = dp, .cp = checked_cast<std::size_t>(sharing.choice.cp), .tp = tp}, dtype,
        {.head_ranks = tp * checked_cast<std::size_t>(sharing.choice.ulysses),
         .sequence_multiple = sequence_parallel ? tp : 1});
    c.techniques = techniques;
    c.of_one_rank = collectives::test::of_one_rank;
    c.layout = sharing.flags();
    if (sequence_parallel) c.layout += " --sp on";
    c.options.model.vocab_size += random.between(0, 2 * tp);
    c.options.doc_length = random.pick({0U, 0U, 1U, 3U, 9U});
    c.options.model.sliding_window = random.pick({0U, 0U, 1U, 2U, 5U, 11U});
    return c;
  }
  MeshCase draw(std::size_t dp, std::size_t tp, const MethodChoice& choice, DType dtype) {
    return draw(dp, tp,
                {choice, random.pick({SequenceLayout::kContiguous, SequenceLayout::kZigzag})},
                dtype);
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
