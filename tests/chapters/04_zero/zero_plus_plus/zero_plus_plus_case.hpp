#pragma once
/// @file
/// Cases of training with ZeRO++: techniques and nodes, all subsets of them, and random draws.

#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_options.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero::test {

using namespace ultra::test;

/// @brief Every list that --zero++ takes but the empty one.
inline std::vector<std::string> all_techniques() {
  std::vector<std::string> lists;
  for (const std::string weights : {"", "weights-int8,"}) {
    for (const std::string secondary : {"", "hierarchical,"}) {
      for (const std::string gradients : {"", "gradients-int8,", "gradients-int4,"}) {
        std::string list = weights + secondary + gradients;
        if (list.empty()) continue;
        list.pop_back();
        lists.push_back(list);
      }
    }
  }
  return lists;
}

/// @brief What a list means on nodes of a size; absent: no nodes, which hpZ needs.
inline ZeroPlusPlus techniques(const std::string& list, std::optional<std::size_t> node_size) {
  ZeroPlusPlus how = parse_techniques(list);
  how.node_size = node_size;
  return how;
}

/// @brief The techniques and nodes, for messages.
inline std::string text_of(const ZeroPlusPlus& how) {
  const auto bits = [](const std::optional<BlockFormat>& format) {
    return format ? static_cast<int>(format->bits) : 0;
  };
  return fmt::format("weights {} bits, gradients {} bits, blocks of {}, secondary {}, nodes of {}",
                     bits(how.weights), bits(how.gradients),
                     how.weights ? how.weights->block : how.gradients.value_or(BlockFormat()).block,
                     how.secondary == SecondaryShards::kInNode, how.node_size.value_or(0));
}

/// @brief Random small runs of ZeRO-3, to which techniques are added.
class ZeroPlusPlusTest : public ZeroTest {
 protected:
  /// Divisors of the number of ranks.
  std::size_t draw_node_size(int ranks) {
    while (true) {
      const std::size_t size = random.between(1, static_cast<std::size_t>(ranks));
      if (static_cast<std::size_t>(ranks) % size == 0) return size;
    }
  }

  /// Short blocks, so that the small units of the tests have several.
  ZeroPlusPlus draw_techniques(const std::string& list, int ranks) {
    ZeroPlusPlus how = techniques(list, draw_node_size(ranks));
    for (std::optional<BlockFormat>* format : {&how.weights, &how.gradients}) {
      if (*format) (*format)->block = random.between(1, 64);
    }
    if (how.secondary == SecondaryShards::kNone && !how.gradients) how.node_size = {};
    return how;
  }

  ZeroCase draw_with(const std::string& list, int ranks, DType dtype) {
    ZeroCase c = draw(ranks, ZeroStage::kParameters, dtype);
    c.settings.cut = ShardCut::kFlat;
    c.settings.plus_plus = draw_techniques(list, ranks);
    if (c.settings.plus_plus.secondary == SecondaryShards::kInNode) {
      c.settings.reshard = Reshard::kAfterForward;
    }
    return c;
  }
};

}  // namespace ultra::zero::test
