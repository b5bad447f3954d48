#pragma once
/// @file
/// The flags of chapters 03 and 04 as one command line sets them.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chapters/04_zero/options/zero_options.hpp"
#include "tests/support/programs/command_line.hpp"

namespace ultra::zero::test {

using namespace ultra::test;

class ZeroFlags : public ::testing::Test {
 protected:
  void parse(const Words& words) {
    data_parallel = {};
    zero = {};
    parse_into(words, data_parallel, zero);
  }
  void parse(const std::string& line) { parse(words_of(line)); }

  void expect_valid(const std::string& line) {
    parse(line);
    EXPECT_NO_THROW(zero.validate(data_parallel)) << line;
  }

  /// Each row's command line is refused, in one line.
  void expect_refused(const std::vector<Refusal>& rows) {
    for (const Refusal& row : rows) {
      SCOPED_TRACE(row.line);
      const std::string message = message_of<ConfigError>([&] {
        parse(row.line);
        zero.validate(data_parallel);
      });
      expect_parts(message, row.parts);
      EXPECT_EQ(message.find('\n'), std::string::npos) << "one line";
    }
  }

  /// The flags of the last command line do not go together with that many replicas.
  void expect_nodes_refused(int replicas, const Words& parts) const {
    const auto check = [&] { zero.expect_nodes_of(replicas); };
    expect_parts(message_of<ConfigError>(check), parts);
  }

  [[nodiscard]] ZeroSettings settings(const std::string& line, DType dtype = DType::kF32) {
    parse(line);
    return zero.settings(data_parallel, dtype);
  }

  data_parallel::DataParallelOptions data_parallel;
  ZeroOptions zero;
};

}  // namespace ultra::zero::test
