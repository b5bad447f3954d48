#pragma once
/// @file
/// What a person sees while a model trains.

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <optional>

namespace ultra::train {

/// @brief Step, loss, tokens per second and time to go: one live line on a terminal, else (and under
/// mpirun) a plain line now and then.
class Progress {
 public:
  /// @param total_steps    steps of the run.
  /// @param out            stdout in programs.
  /// @param earlier_steps  how many of them earlier runs have made.
  Progress(std::size_t total_steps, std::FILE* out, std::size_t earlier_steps = 0);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Ends a live line that is still open.
  ~Progress();

  /// @brief Shows a step that has ended; the first of all runs is 1.
  /// @param next_loss  of the tokens after next; absent: nobody predicts them.
  void show(std::size_t step, double loss, double tokens_per_second,
            std::optional<double> next_loss = {});

  /// @brief Shows the loss of a validation that followed a step: a line of its own.
  void show_validation(std::size_t step, double loss);

 private:
  [[nodiscard]] bool is_due(std::size_t step) const;

  std::size_t total_steps_;
  std::size_t earlier_steps_;
  std::FILE* out_;
  bool live_;
  bool line_open_ = false;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace ultra::train
