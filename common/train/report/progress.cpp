#include "common/train/report/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "common/base/units.hpp"
#include "common/comm/run_ranks.hpp"

namespace ultra::train {
namespace {

constexpr std::size_t kPlainLines = 10;
constexpr std::size_t kBarWidth = 24;

std::string bar(std::size_t step, std::size_t total) {
  const std::size_t filled = kBarWidth * step / total;
  return fmt::format("[{}{}]", std::string(filled, '#'), std::string(kBarWidth - filled, '.'));
}

}  // namespace

Progress::Progress(std::size_t total_steps, std::FILE* out, std::size_t earlier_steps)
    : total_steps_(total_steps),
      earlier_steps_(earlier_steps),
      out_(out),
      // mpirun gives its processes a terminal, whatever becomes of what they print.
      live_(isatty(fileno(out)) == 1 && !launched_world_size()),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (line_open_) fmt::print(out_, "\n");
}

bool Progress::is_due(std::size_t step) const {
  const std::size_t every = std::max<std::size_t>(1, total_steps_ / kPlainLines);
  return live_ || step == earlier_steps_ + 1 || step % every == 0 || step == total_steps_;
}

void Progress::show_validation(std::size_t step, double loss) {
  if (line_open_) fmt::print(out_, "\r\033[K");
  line_open_ = false;
  fmt::print(out_, "step {:>5}/{}  validation loss {:.4f}\n", step, total_steps_, loss);
  std::fflush(out_);
}

void Progress::show(std::size_t step, double loss, double tokens_per_second,
                    std::optional<double> next_loss) {
  if (!is_due(step)) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  const double to_go = elapsed.count() / static_cast<double>(step - earlier_steps_) *
                       static_cast<double>(total_steps_ - step);
  const std::string next = next_loss ? fmt::format("after next {:.4f}  ", *next_loss) : "";
  const std::string text =
      fmt::format("step {:>5}/{}  loss {:.4f}  {}{:>7.0f} tokens/s  {} left", step, total_steps_,
                  loss, next, tokens_per_second, format_seconds(to_go));
  if (live_) {
    fmt::print(out_, "\r\033[K{} {}", bar(step, total_steps_), text);
    line_open_ = step < total_steps_;
    if (!line_open_) fmt::print(out_, "\n");
  } else {
    fmt::print(out_, "{}\n", text);
  }
  std::fflush(out_);
}

}  // namespace ultra::train
