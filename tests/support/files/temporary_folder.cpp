#include "tests/support/files/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace ultra::test {
namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "ultra_test_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder: " + name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TemporaryFolder::path(std::string_view name) const {
  return name.empty() ? path_.string() : (path_ / name).string();
}

std::string TemporaryFolder::write(std::string_view name, std::string_view content) const {
  const fs::path file = path_ / name;
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
  return file.string();
}

std::vector<std::string> TemporaryFolder::names() const {
  std::vector<std::string> result;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    result.push_back(entry.path().filename().string());
  }
  std::sort(result.begin(), result.end());
  return result;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path << " cannot be read";
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

namespace {

constexpr uid_t kNobody = 65534;

}  // namespace

WithoutPrivileges::WithoutPrivileges() : was_root_(geteuid() == 0) {
  if (was_root_ && seteuid(kNobody) != 0)
    throw std::runtime_error("root cannot give up its rights");
}

WithoutPrivileges::~WithoutPrivileges() {
  if (was_root_ && seteuid(0) != 0) std::abort();
}

}  // namespace ultra::test
