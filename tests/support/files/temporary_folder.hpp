#pragma once
/// @file
/// A folder for the files of one test.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ultra::test {

/// @brief A new folder of the system's temporary folder; removed with all it holds at the end.
class TemporaryFolder {
 public:
  /// @brief Makes the folder.
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  /// @brief The folder's path, or the path of a name in it.
  [[nodiscard]] std::string path(std::string_view name = "") const;

  /// @brief Writes a file, and the folders on the way to it; returns its path.
  std::string write(std::string_view name, std::string_view content) const;

  /// @brief Names of what the folder holds, sorted.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

/// @brief All bytes of a file; fails the test when it cannot be read.
[[nodiscard]] std::string read_file(const std::string& path);

/// @brief Takes the rights to read and write everything from root, until the end of the scope.
///
/// Tests of permissions hold for root too then. Does nothing for other users.
class WithoutPrivileges {
 public:
  /// @brief Gives the rights up.
  WithoutPrivileges();
  WithoutPrivileges(const WithoutPrivileges&) = delete;
  WithoutPrivileges& operator=(const WithoutPrivileges&) = delete;
  /// Takes them back.
  ~WithoutPrivileges();

 private:
  bool was_root_;
};

}  // namespace ultra::test
