// Exported options against the lists of those that the programs have, taken from their sources: their
// versions stand in target_options.json.
//
// Covers: chapters/11_five_d/planner/export/exported_options.hpp
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "build_config.hpp"
#include "chapters/11_five_d/planner/export/exported_options.hpp"
#include "chapters/11_five_d/planner/search/layout_search.hpp"
#include "tests/chapters/11_five_d/planner/export/parsed_options.hpp"
#include "tests/support/random.hpp"

namespace ultra::planner {
namespace {

using nlohmann::json;

/// Options by their dotted names.
using Assigned = std::map<std::string, std::string>;

class OptionNames : public ultra::test::RandomTest {
 protected:
  /// A layout of a search among all, and what is trained.
  std::pair<Workload, Layout> draw() {
    const char* name = random.pick({"llama-8b", "llama-70b", "mixtral-8x7b", "megatron-22b"});
    const Workload work{.model = *find_model(name), .seq_len = 8192, .global_batch = 256};
    std::vector<Layout> all;
    for_each_layout(work,
                    {.gpus = random.pick({16U, 32U, 64U}),
                     .orders = {Outermost::kData, Outermost::kPipeline},
                     .node = 8,
                     .hybrid = true},
                    [&](const Layout& one) { all.push_back(one); });
    Layout layout = all[random.between(0, all.size() - 1)];
    layout.offload = layout.zero != zero::ZeroStage::kNone && random.pick({true, false});
    layout.offload_activations = random.pick({true, false});
    return {work, layout};
  }

  static void expect_known(const char* program, const Assigned& options, const Layout& layout) {
    static const json targets =
        json::parse(std::ifstream(std::string(build::kSourceDir) +
                                  "/tests/chapters/11_five_d/planner/export/target_options.json"));
    const json& target = targets.at(program);
    const std::set<std::string> names = target["options"];
    for (const auto& [name, value] : options) {
      EXPECT_TRUE(names.contains(name)) << program << " has no " << name << ": " << layout.str();
      if (!target["choices"].contains(name)) continue;
      const std::set<std::string> choices = target["choices"][name];
      EXPECT_TRUE(choices.contains(value)) << program << ": " << name << " " << value;
    }
  }
};

/// "key: value" lines, of the section above them.
Assigned of_yaml(const std::string& text) {
  Assigned all;
  std::istringstream lines(text);
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    const std::size_t colon = line.find(':');
    const std::size_t first = line.find_first_not_of(' ');
    if (first == 0) {
      section = line.substr(0, colon);
      continue;
    }
    all[section + "." + line.substr(first, colon - first)] = line.substr(colon + 2);
  }
  return all;
}

void add_leaves(const json& object, const std::string& above, Assigned& all) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = above.empty() ? key : above + "." + key;
    if (value.is_object()) {
      add_leaves(value, name, all);
    } else if (name != "remarks") {
      all[name] = value.dump();
    }
  }
}

/// "config.section.field = value" lines.
Assigned of_python(const std::string& text) {
  Assigned all;
  std::istringstream lines(text);
  const std::string start = "    config.";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(start)) continue;
    const std::size_t equals = line.find(" = ");
    std::string value = line.substr(equals + 3);
    std::erase(value, '"');
    all[line.substr(start.size(), equals - start.size())] = value;
  }
  return all;
}

TEST_F(OptionNames, AreThoseOfTheProgramsSources) {
  for (int round = 0; round < 60; ++round) {
    const auto [work, layout] = draw();
    Assigned megatron;
    for (const auto& [flag, words] : test::parsed_options(megatron_options(work, layout))) {
      megatron[flag] = words.empty() ? "" : words.front();
    }
    expect_known("Megatron-LM", megatron, layout);
    expect_known("nanotron", of_yaml(nanotron_config(work, layout)), layout);
    Assigned deepspeed;
    add_leaves(json::parse(deepspeed_config(work, layout)), "", deepspeed);
    expect_known("DeepSpeed", deepspeed, layout);
    const Assigned titan = of_python(torchtitan_config(work, layout));
    EXPECT_GE(titan.size(), 9U);
    expect_known("torchtitan", titan, layout);
  }
}

}  // namespace
}  // namespace ultra::planner
