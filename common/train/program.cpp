#include "common/train/program.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"

namespace ultra::train {
namespace {

int report(const std::string& message, int exit_code) {
  std::fflush(stdout);
  std::string line = message;
  std::replace(line.begin(), line.end(), '\n', ' ');
  fmt::print(stderr, "error: {}\n", line);
  return exit_code;
}

}  // namespace

int run_program(CLI::App& app, int argc, const char* const* argv,
                const std::function<void()>& body) {
  try {
    app.parse(argc, argv);
    const InterruptGuard guard;
    body();
    return kExitOk;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return report(fmt::format("{}. Run {} --help for the flags.", error.what(), app.get_name()),
                  kExitBadInput);
  } catch (const Interrupted& error) {
    return report(error.what(), kExitInterrupted);
  } catch (const NotWritten& error) {
    return report(error.what(), kExitNotWritten);
  } catch (const InternalError& error) {
    return report(error.what(), kExitBug);
  } catch (const Error& error) {
    return report(error.what(), kExitBadInput);
  } catch (const std::exception& error) {
    return report(fmt::format("unexpected: {}", error.what()), kExitBug);
  }
}

}  // namespace ultra::train
