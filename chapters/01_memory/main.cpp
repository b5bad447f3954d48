/// 01_memory: trains on one rank and accounts for every byte.

#include "chapters/01_memory/memory.hpp"
#include "common/train/cli/run_techniques.hpp"

int main(int argc, char** argv) {
  using namespace ultra;
  return train::run_techniques(
      "01_memory", "Trains a small Llama-style model on one rank and accounts for every byte.",
      [] { return train::list_of(memory::technique()); }, argc, argv);
}
