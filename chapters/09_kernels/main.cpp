/// 09_kernels: lists the ladders of kernels, and runs their rungs in the emulator or on a GPU.

#include "chapters/09_kernels/ladder_program.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/program/program.hpp"

int main(int argc, char** argv) {
  using namespace ultra;
  ladders::KernelsOptions options;
  return train::run_program(
      {.name = "09_kernels",
       .description =
           "Runs ladders of kernels, from naive to the limit, in the emulator or on a GPU.",
       .add_flags = [&](CLI::App& app) { options.add_to(app); },
       .body =
           [&] {
             if (launched_rank() == 0) {  // kernels need no ranks
               ladders::run_ladder_program(options);
             }
           }},
      argc, argv);
}
