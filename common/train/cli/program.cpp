#include "common/train/cli/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/comm/comm_error.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/options/flags.hpp"

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

int run(const Program& program, CommandParser& parser, const std::vector<std::string>& words) {
  try {
    expect_usable_launch();
    if (const auto help = parser.read(program.rewrite ? program.rewrite(words) : words)) {
      if (launched_rank() == 0) fmt::print("{}", *help);
      return kExitOk;
    }
    const InterruptGuard guard;
    program.body();
    return kExitOk;
  } catch (const FlagError& error) {
    return report(fmt::format("{}. Run {} --help for the flags.", error.what(), program.name),
                  kExitBadInput);
  } catch (const RankFailed& error) {
    const bool stopped = error.kind() == ErrorKind::kInterrupted;
    return report(stopped ? "stopped with the other ranks; no result was written" : error.what(),
                  exit_code_of(error.kind()));
  } catch (const NotAsAsserted& error) {
    return report(error.what(), kExitNotAsAsserted);
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
  CommandParser parser(program.description, program.name);
  program.add_flags(parser.app());
  return run(program, parser, std::vector<std::string>(argv + 1, argv + argc));
}

}  // namespace ultra::train
