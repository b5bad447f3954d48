#include "tests/support/programs/process.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "build_config.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/patience.hpp"

namespace ultra::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNotStarted = 127;
constexpr int kTimedOut = 124;

/// In the child: only calls that are safe after fork.
[[noreturn]] void become(char* const* argv, const char* out, const char* err) {
  // Fails, and is not needed, for users other than root.
  static_cast<void>(prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE));
  static_cast<void>(prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH));
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  if (dup2(open("/dev/null", O_RDONLY), 0) == 0 && dup2(open(out, flags, 0600), 1) == 1 &&
      dup2(open(err, flags, 0600), 2) == 2) {
    execv(argv[0], argv);
  }
  _exit(kNotStarted);
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw std::runtime_error("the program was lost");
  }
  return exit_code_of(status);
}

/// Whether the child ends before `deadline`; it has been waited for then.
bool ends_before(pid_t child, Clock::time_point deadline, int& exit_code) {
  while (Clock::now() < deadline) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      exit_code = exit_code_of(status);
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

/// Processes that `parent` has started and that have not ended.
int running_children(pid_t parent) {
  int running = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string line;
    if (!std::getline(stat, line)) continue;
    std::istringstream behind_the_name(line.substr(line.rfind(')') + 1));
    char state = 0;
    pid_t its_parent = 0;
    if (behind_the_name >> state >> its_parent && its_parent == parent && state != 'Z') ++running;
  }
  return running;
}

/// Ends a child, gently first: mpirun then ends what it has started.
int end_now(pid_t child) {
  int ignored = 0;
  kill(child, SIGTERM);
  if (!ends_before(child, Clock::now() + std::chrono::seconds(5), ignored)) {
    kill(child, SIGKILL);
    wait_for(child);
  }
  return kTimedOut;
}

/// Whether the process has a handler for the signal.
bool catches(pid_t process, int signal) {
  const std::string caught = "SigCgt:";
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(caught)) continue;
    const unsigned long long mask = std::stoull(line.substr(caught.size()), nullptr, 16);
    return ((mask >> (signal - 1)) & 1U) != 0;
  }
  return false;
}

/// Starts the command, lets `wait` wait for it, and reads what it left.
template <class Wait>
ProcessResult run(std::vector<std::string> words, Wait wait) {
  const TemporaryFolder folder;
  const std::string out = folder.path("out");
  const std::string err = folder.path("err");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const auto begin = Clock::now();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process could be started");
  if (child == 0) become(argv.data(), out.c_str(), err.c_str());
  ProcessResult result;
  result.exit_code = wait(child);
  result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  result.out = read_file(out);
  result.err = read_file(err);
  return result;
}

}  // namespace

std::string program_path(const std::string& name) {
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe");
  return (own.parent_path().parent_path() / "bin" / name).string();
}

ProcessResult run_program(const std::string& name, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{program_path(name)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run(std::move(words), wait_for);
}

ProcessResult run_command(const std::vector<std::string>& words, std::chrono::seconds limit) {
  int running = 0;
  ProcessResult result = run(words, [&](pid_t child) {
    int exit_code = 0;
    const auto deadline = Clock::now() + patient(limit);
    if (ends_before(child, deadline, exit_code)) return exit_code;
    running = running_children(child);
    return end_now(child);
  });
  result.running_children = running;
  return result;
}

ProcessResult interrupt_program(const std::string& name, const std::vector<std::string>& arguments,
                                int signal, std::chrono::milliseconds after,
                                std::chrono::seconds limit) {
  std::vector<std::string> words{program_path(name)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run(words, [=](pid_t child) {
    int exit_code = 0;
    const auto start = Clock::now();
    while (!catches(child, signal) && Clock::now() < start + patient(limit)) {
      if (ends_before(child, Clock::now() + std::chrono::milliseconds(5), exit_code)) {
        return exit_code;
      }
    }
    if (ends_before(child, Clock::now() + after, exit_code)) return exit_code;
    kill(child, signal);
    return ends_before(child, Clock::now() + patient(limit), exit_code) ? exit_code
                                                                        : end_now(child);
  });
}

bool has_mpirun() { return build::kHasMpi && !build::kMpirun.empty(); }

std::vector<std::string> mpirun_words(int processes, const std::vector<std::string>& words) {
  std::vector<std::string> all = {"/usr/bin/env",
                                  "OMPI_ALLOW_RUN_AS_ROOT=1",
                                  "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                  "ASAN_OPTIONS=protect_shadow_gap=0:detect_leaks=0",
                                  std::string(build::kMpirun),
                                  "--oversubscribe",
                                  "--bind-to",
                                  "none",
                                  "-n",
                                  std::to_string(processes)};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

ProcessResult run_with_mpirun(int processes, const std::vector<std::string>& words,
                              std::chrono::seconds limit) {
  return run_command(mpirun_words(processes, words), limit);
}

}  // namespace ultra::test
