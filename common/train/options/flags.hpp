#pragma once
/// @file
/// The flags of a command line. CLI11, which reads it, takes seconds to compile: flags.cpp alone
/// includes it.

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/errors.hpp"
#include "common/train/options/cli_fwd.hpp"

namespace ultra::train {

/// @brief The numbers that a flag takes: from the least to the most, these two among them.
template <class T>
struct Limits {
  T least = std::numeric_limits<T>::lowest();  ///< the smallest
  T most = std::numeric_limits<T>::max();      ///< the largest
};
/// The whole numbers that a flag takes.
using Counts = Limits<std::size_t>;
/// The numbers that a flag takes. They are finite.
using Numbers = Limits<double>;

/// Steps that a training can have: more than anybody waits for.
inline constexpr std::size_t kMostSteps = 1'000'000'000;
/// Ranks that flags can ask for: more than any machine has.
inline constexpr std::size_t kMostRanks = 1'000'000;

/// @brief A command line that is not understood: a flag that does not exist, or one without its value.
class FlagError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// @brief Reads a command line.
class CommandParser {
 public:
  /// @param description  for --help, as `name` is.
  explicit CommandParser(const std::string& description = "", const std::string& name = "");
  ~CommandParser();
  CommandParser(const CommandParser&) = delete;
  CommandParser& operator=(const CommandParser&) = delete;

  /// @brief What flags are added to.
  [[nodiscard]] CLI::App& app() { return *app_; }
  /// @brief The text of --help.
  [[nodiscard]] std::string help() const;
  /// @brief Reads the words after the program's name, and sets the flags' values.
  /// @return the text of --help, if it is among the words.
  /// @throws FlagError, and what the flags throw.
  std::optional<std::string> read(const std::vector<std::string>& words);

 private:
  std::unique_ptr<CLI::App> app_;
};

/// @brief Whether a word of a command line is a flag: "--on", or "--on=dgx-h100".
[[nodiscard]] inline bool is_flag(std::string_view word, std::string_view flag) {
  return word.starts_with(flag) && (word.size() == flag.size() || word[flag.size()] == '=');
}

/// @brief Whether --help shows the value that a flag has when it is left out.
enum class ShowDefault {
  kYes,
  kNo,  ///< the flag's help says it in words
};

/// @brief Adds flags to one group of a command line's help.
///
/// The values must outlive the command line. What a flag does not take throws ConfigError while the
/// command line is read, with a message that names the flag, what was found and what is expected.
/// No flag takes an empty value, which a variable of the shell that is not set would be.
class Flags {
 public:
  /// @param group  the heading in --help; empty hides the flags.
  Flags(CLI::App& app, std::string group);

  /// @brief A flag with a count: decimal digits, without a sign.
  void add(const char* flag, std::size_t& value, const std::string& help, Counts limits = {},
           ShowDefault show = ShowDefault::kYes) const;
  /// @brief A flag with a number: decimal, "2.5" or "1e-3".
  void add(const char* flag, double& value, const std::string& help, Numbers limits = {}) const;
  /// @brief A flag with a text.
  void add(const char* flag, std::string& value, const std::string& help) const;
  /// @brief A flag with a count that may be left out.
  void add(const char* flag, std::optional<std::size_t>& value, const std::string& help,
           Counts limits = {}) const;
  /// @brief A flag with a number that may be left out.
  void add(const char* flag, std::optional<double>& value, const std::string& help,
           Numbers limits = {}) const;
  /// @brief A flag with a text that may be left out.
  void add(const char* flag, std::optional<std::string>& value, const std::string& help) const;
  /// @brief A flag with texts that commas separate.
  void add(const char* flag, std::vector<std::string>& values, const std::string& help) const;

  /// @brief A flag with a text that is one of `words`.
  void add_one_of(const char* flag, std::string& value, const std::vector<std::string>& words,
                  const std::string& help) const;

  /// @brief A flag whose text `read` understands, or throws ConfigError for: see under_flag().
  /// @param shown_default  for --help; empty: nothing is shown.
  void add_parsed(const char* flag, std::function<void(const std::string&)> read,
                  const std::string& help, const std::string& shown_default = "") const;

  /// @brief A flag without a value, which sets `value`; with "!" before its name it clears it.
  void add_switch(const char* flag, bool& value, const std::string& help) const;

 private:
  /// What --help shows of a flag.
  struct Shown {
    const char* flag;
    const std::string& help;
    const char* type;
    const std::string& default_value;
  };
  void add_read(const Shown& shown, std::function<void(const std::string&)> read) const;

  CLI::App* app_;
  std::string group_;
};

/// @brief The program's name, as CommandParser was told it.
[[nodiscard]] std::string name_of(const CLI::App& app);

/// @brief Each flag's value, as given or by default; empty: not given.
[[nodiscard]] std::map<std::string, std::string> values_of(const CLI::App& app);

/// @brief Calls `fn` when the command line gives a flag that was added before.
void when_given(CLI::App& app, const char* flag, std::function<void()> fn);

/// @brief A message about the value of a flag, which begins with the flag.
/// @param elsewhere  what the message begins with instead; may be empty.
[[nodiscard]] std::string message_under_flag(std::string_view flag, std::string_view elsewhere,
                                             std::string_view message);

/// @brief What fn returns; the message of its error begins with this flag.
/// @param elsewhere  what it begins with otherwise: the flag that the value belongs to elsewhere.
/// @throws ConfigError when fn does.
template <class Fn>
auto under_flag(std::string_view flag, std::string_view elsewhere, Fn&& fn) {
  try {
    return fn();
  } catch (const ConfigError& error) {
    throw ConfigError(message_under_flag(flag, elsewhere, error.what()));
  }
}

}  // namespace ultra::train
