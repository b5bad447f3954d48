#pragma once
/// @file
/// Every chapter's ways to train, as flags of the program that has them: what a device must do as the CPU
/// does; and the tiny training that each is tried with.

#include <string>
#include <vector>

#include "common/train/cli/run_techniques.hpp"

namespace ultra::devices {

/// @brief How far a training on a device may be from the CPU's.
enum class Likeness {
  kEveryNumber,  ///< f64 to 1e-10: losses, norms, weights; f32 losses to 1e-4
  kInF64,        ///< f64 only: rounding decides what is sent or chosen, so that f32 may part ways
  kKeptMoment,  ///< as kInF64, and f32 losses of three steps to 1 %: weights are divided by the root of
                ///< what the first gradient was, rounded; 1e-8 and 1.01e-8 are far apart then
  kLossesInF64,  ///< as kInF64, without weights: they are on no rank that trains, but on servers
  kRoughly,      ///< types of two bytes or one: losses to 2 %
};

/// @brief One way to train.
struct Layout {
  std::string chapter;  ///< "04_zero"
  std::string name;     ///< of letters and digits
  std::string flags;    ///< of its program, beside the tiny model's
  Likeness likeness = Likeness::kEveryNumber;
};

/// @brief The program of a layout: 11_five_d, or 03_parameter_server.
struct LayoutProgram {
  train::Techniques techniques;
  train::WorkerOfRank make_worker;
};
[[nodiscard]] LayoutProgram program_of(const Layout& layout);

/// @brief The ways of chapters 01 to 08, 10 and 11, on one to four ranks.
[[nodiscard]] const std::vector<Layout>& layouts();

/// @brief A text of its own: the machine that runs this may not have the workbook's.
[[nodiscard]] std::string text_of_numbers();

/// @brief The flags of a run, without its text and device; what the layout says of the model wins.
/// @param more  flags beside the layout's and the model's.
[[nodiscard]] std::string flags_of(const Layout& layout, const std::string& more);

}  // namespace ultra::devices
