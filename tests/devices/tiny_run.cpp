#include "tests/devices/tiny_run.hpp"

#include <fmt/format.h>

namespace ultra::devices {

std::string text_of_numbers() {
  std::string text;
  for (int i = 0; i < 400; ++i) text += fmt::format("{} and {} are {}. ", i, 3 * i, 4 * i);
  return text;
}

std::string flags_of(const Layout& layout, const std::string& more) {
  const auto unless_given = [&](const std::string& flag, const std::string& value) {
    return layout.flags.find(flag + " ") == std::string::npos ? flag + " " + value + " " : "";
  };
  return fmt::format(
      "{}{}{}--hidden 16 --heads 4 --ffn 24 --global-batch 6 --micro-batch 1 --warmup 1 "
      "--lr 1e-2 {} {}",
      unless_given("--layers", "2"), unless_given("--seq", "12"), unless_given("--kv-heads", "2"),
      more, layout.flags);
}

}  // namespace ultra::devices
