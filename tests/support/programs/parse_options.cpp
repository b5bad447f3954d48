#include "tests/support/programs/parse_options.hpp"

#include "common/train/options/flags.hpp"

namespace ultra::test {

void parse_flags(const std::function<void(CLI::App&)>& add_flags,
                 const std::vector<std::string>& arguments) {
  train::CommandParser parser;
  add_flags(parser.app());
  static_cast<void>(parser.read(arguments));
}

std::string help_of(const std::function<void(CLI::App&)>& add_flags) {
  train::CommandParser parser;
  add_flags(parser.app());
  return parser.help();
}

}  // namespace ultra::test
