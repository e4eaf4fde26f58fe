/* tenure-sim - the simulator as a program of its own; `tenure sim` runs it. */
#include "options.h"

int main(int argc, char **argv)
{
    return sim_main(argc, argv);
}
