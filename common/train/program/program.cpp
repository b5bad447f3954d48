#include "common/train/program/program.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/comm/comm_error.hpp"
#include "common/comm/run_ranks.hpp"

namespace ultra::train {
namespace {

constexpr auto kTimeOfRankZero = std::chrono::milliseconds(300);

int report(const std::string& message, int exit_code) {
  // Every failure reaches rank 0: as its own error, or as a RankFailed that quotes the culprit.
  if (launched_rank() != 0) {
    // mpirun ends all processes when one has ended with an error: rank 0 must have had its say.
    std::this_thread::sleep_for(kTimeOfRankZero);
    return exit_code;
  }
  std::fflush(stdout);
  std::string line = message;
  std::replace(line.begin(), line.end(), '\n', ' ');
  fmt::print(stderr, "error: {}\n", line);
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
    return report(stopped ? "stopped with the other ranks; no file was written" : error.what(),
                  exit_code_of(error.kind()));
  } catch (const Error& error) {
    return report(error.what(), exit_code_of(kind_of(std::current_exception())));
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
