#pragma once
/// @file
/// Whether a layout fits into the GPUs, and what would make it fit.
///
/// Exercise 11.3 (`./workbook check 11.3`). Body: solutions/11_five_d/fit.cpp.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/11_five_d/planner/layout_memory.hpp"

namespace ultra::planner {

/// @brief What Fit::largest_part calls the six parts of a StageMemory, in the order of its members.
inline constexpr std::array<std::string_view, 6> kMemoryParts = {"parameters",
                                                                 "gradients",
                                                                 "optimizer states",
                                                                 "activations",
                                                                 "what exists for a moment",
                                                                 "buffers and the CUDA context"};

/// @brief The judgement on one layout.
struct Fit {
  bool fits = false;                  ///< the largest stage is no larger than a GPU's memory
  StageMemory memory = {};            ///< of that stage
  double missing_bytes = 0;           ///< above the GPU's memory; 0 when it fits
  std::string largest_part = {};      ///< of what does not fit, by its name in kMemoryParts
  std::optional<Layout> remedy = {};  ///< the smallest change that makes it fit, if one does
};

/// @brief The changes that need less memory and no other GPUs, from the cheapest to the most expensive.
///
/// In this order: the next ZeRO stages, while there is somebody to share with; selective, then full
/// recomputation; a smaller micro-batch, halved again and again; the optimizer's states in the
/// host's memory. Each alone, then all ZeRO stages with each recomputation, then with the smallest
/// micro-batch, then with everything.
[[nodiscard]] std::vector<Layout> cheaper_layouts(const Layout& layout);

/// @brief Judges a layout.
///
/// A GPU holds the stage when StageMemory::total() is at most its memory. When it does not, the part
/// that takes most of it is named as in kMemoryParts, and the first of cheaper_layouts() that is
/// possible (why_impossible) and fits is the remedy.
[[nodiscard]] Fit fit(const Question& question, const Layout& layout);

/// @brief The judgement in words: "needs 91.2 GB of 85.9 GB; most of it for activations (60.1 GB).
/// It fits with recompute selective."
[[nodiscard]] std::string describe(const Fit& fit, const Question& question);

}  // namespace ultra::planner
