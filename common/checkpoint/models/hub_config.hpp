#pragma once
/// @file
/// HubConfig: what a config.json of Hugging Face's says, with refusals in words.

#include <cstddef>
#include <initializer_list>
#include <string>

#include "common/base/json.hpp"

namespace ultra::checkpoint {

/// @brief A config.json that is read member by member.
class HubConfig {
 public:
  /// @param config  an object; outlives this.
  /// @param path    of its file, for messages; outlives this.
  HubConfig(const Json& config, const std::string& path) : config_(config), path_(path) {}

  /// @brief The object.
  [[nodiscard]] const Json& json() const { return config_; }
  /// @brief A member; null when there is none.
  [[nodiscard]] Json member(const char* name) const;
  /// @brief A member that is a whole number above 0.
  /// @throws JsonError that names it when it is none.
  [[nodiscard]] std::size_t size(const char* name) const;
  /// @brief The same, or another number where the member is missing or null.
  [[nodiscard]] std::size_t size_or(const char* name, std::size_t otherwise) const;

  /// @brief Refuses a config.json that leaves these out: where it is silent, other programs take what is
  /// none of ours.
  /// @throws JsonError that names the first.
  void expect_said(std::initializer_list<const char*> names) const;
  /// @brief Refuses a model that has what this program's lacks. A member that is missing or null is as
  /// we have it.
  /// @throws FileError that says what it has and what ours is.
  void expect(const char* name, const Json& ours) const;
  /// @brief The same, of a value that stands deeper.
  void expect(const std::string& name, const Json& found, const Json& ours) const;
  /// @brief Throws FileError "'PATH' WHAT".
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const Json& config_;
  const std::string& path_;
};

/// @brief The member of an object; null when there is none.
[[nodiscard]] Json member_or_null(const Json& object, const char* name);

}  // namespace ultra::checkpoint
