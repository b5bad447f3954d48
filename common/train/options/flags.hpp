#pragma once
/// @file
/// The flags of a command line, without CLI11 in the sources that add them: it takes seconds to compile.

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "common/train/options/cli_fwd.hpp"

namespace ultra::train {

/// @brief Whether --help shows the value that a flag has when it is left out.
enum class ShowDefault {
  kYes,
  kNo,  ///< the flag's help says it in words
};

/// @brief Adds flags to one group of a command line's help.
///
/// The values must outlive the command line. What is not of a value's type is refused by the parser
/// with a message that names the flag.
class Flags {
 public:
  /// @param group  the heading in --help; empty hides the flags.
  Flags(CLI::App& app, std::string group);

  /// @brief A flag with a count. Refuses signs, fractions, text and more than 64 bits.
  void add(const char* flag, std::size_t& value, const std::string& help,
           ShowDefault show = ShowDefault::kYes) const;
  /// @brief A flag with a number.
  void add(const char* flag, double& value, const std::string& help) const;
  /// @brief A flag with a text.
  void add(const char* flag, std::string& value, const std::string& help) const;
  /// @brief A flag with a count that may be left out; refuses what a count's flag refuses.
  void add(const char* flag, std::optional<std::size_t>& value, const std::string& help) const;
  /// @brief A flag with a number that may be left out.
  void add(const char* flag, std::optional<double>& value, const std::string& help) const;
  /// @brief A flag with a text that may be left out.
  void add(const char* flag, std::optional<std::string>& value, const std::string& help) const;
  /// @brief A flag with texts that commas separate.
  void add(const char* flag, std::vector<std::string>& values, const std::string& help) const;

  /// @brief A flag with a text that is one of `words`.
  void add_one_of(const char* flag, std::string& value, std::initializer_list<const char*> words,
                  const std::string& help) const;

  /// @brief A flag whose text `read` understands, or throws for.
  /// @param shown_default  for --help; empty: nothing is shown.
  void add_parsed(const char* flag, std::function<void(const std::string&)> read,
                  const std::string& help, const std::string& shown_default = "") const;

  /// @brief A flag without a value, which sets `value`; with "!" before its name it clears it.
  void add_switch(const char* flag, bool& value, const std::string& help) const;

 private:
  CLI::App* app_;
  std::string group_;
};

/// @brief Calls `fn` when the command line gives a flag that was added before.
void when_given(CLI::App& app, const char* flag, std::function<void()> fn);

}  // namespace ultra::train
