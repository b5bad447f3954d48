#include "tests/support/process.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>

#include "tests/support/temporary_folder.hpp"

namespace ultra::test {
namespace {

constexpr int kNotStarted = 127;

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

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw std::runtime_error("the program was lost");
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

std::string program_path(const std::string& name) {
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe");
  return (own.parent_path().parent_path() / "bin" / name).string();
}

ProcessResult run_program(const std::string& name, const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  const std::string out = folder.path("out");
  const std::string err = folder.path("err");
  std::vector<std::string> words{program_path(name)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process could be started");
  if (child == 0) become(argv.data(), out.c_str(), err.c_str());
  ProcessResult result{.exit_code = wait_for(child), .out = {}, .err = {}};
  result.out = read_file(out);
  result.err = read_file(err);
  return result;
}

}  // namespace ultra::test
