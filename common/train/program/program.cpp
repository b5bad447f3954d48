#include "common/train/program/program.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/comm/comm_error.hpp"
#include "common/comm/run_ranks.hpp"

namespace ultra::train {
namespace {

/// A message as one line for a terminal: what a user's words may have brought is not obeyed there.
std::string line_of(std::string message) {
  constexpr std::size_t kLongest = 4000;
  if (message.size() > kLongest) message.replace(kLongest, std::string::npos, "...");
  std::ranges::replace_if(
      message, [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return message;
}

int report(const std::string& message, int exit_code) {
  if (!reports_for_all()) return exit_code;
  std::fflush(stdout);
  const int rank = launched_rank();
  fmt::print(stderr, "error: {}{}\n", rank == 0 ? "" : fmt::format("[rank {}] ", rank),
             line_of(message));
  return exit_code;
}

int exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kBadInput:
      return kExitBadInput;
    case ErrorKind::kNotWritten:
      return kExitNotWritten;
    case ErrorKind::kInterrupted:
      return kExitInterrupted;
    case ErrorKind::kComm:
    case ErrorKind::kOther:
      return kExitBug;
  }
  return kExitBug;
}

int run(CLI::App& app, int argc, const char* const* argv, const std::function<void()>& body) {
  try {
    expect_usable_launch();
    app.parse(argc, argv);
    const InterruptGuard guard;
    body();
    return kExitOk;
  } catch (const CLI::CallForHelp& help) {
    return launched_rank() == 0 ? app.exit(help) : kExitOk;
  } catch (const CLI::ParseError& error) {
    return report(fmt::format("{}. Run {} --help for the flags.", error.what(), app.get_name()),
                  kExitBadInput);
  } catch (const RankFailed& error) {
    const bool stopped = error.kind() == ErrorKind::kInterrupted;
    return report(stopped ? "stopped with the other ranks; no result was written" : error.what(),
                  exit_code_of(error.kind()));
  } catch (const Error& error) {
    return report(error.what(), exit_code_of(kind_of(std::current_exception())));
  } catch (const std::bad_alloc&) {
    return report("the system has no more memory to give. Choose a smaller model or batch.",
                  kExitBadInput);
  } catch (const std::exception& error) {
    return report(fmt::format("unexpected: {}", error.what()), kExitBug);
  }
}

}  // namespace

int run_program(const Program& program, int argc, const char* const* argv) {
  CLI::App app(program.description, program.name);
  program.add_flags(app);
  return run(app, argc, argv, program.body);
}

}  // namespace ultra::train
