#include "tests/support/parse_options.hpp"

#include <CLI/CLI.hpp>
#include <iterator>
#include <sstream>

namespace ultra::test {

void parse_flags(const std::function<void(CLI::App&)>& add_flags,
                 const std::vector<std::string>& arguments) {
  CLI::App app;
  add_flags(app);
  app.parse(
      std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // it wants the last first
}

std::string help_of(const std::function<void(CLI::App&)>& add_flags) {
  CLI::App app;
  add_flags(app);
  return app.help();
}

}  // namespace ultra::test
