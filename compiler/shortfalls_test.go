package compiler_test

// shortfalls by trainer, scenario and whether marks are seen. What is not listed holds in full. None may get
// worse; one that gets better should be lowered here (SHORTFALLS=1 go test -run TestScenarios prints what
// holds now). The causes:
//
//   - A step of longer or mixed sequences: larger requests do not fit their slots, and the heap takes them beside
//     an idle arena, where guests find room only for what dies soon: longer, varying sequences, moe shorter.
//   - A request with the size of an entry that is not its own takes its address, and holds it for another life:
//     two models, ramp-up, swap, missing.
//   - An unknown request that stays for ever and comes in the prologue becomes a guest where only the loop
//     will want to be: extra at the start, resumed. At the start the arena is committed whole, and what a resumed
//     job loads lies beside it.
var shortfalls = map[string]shortfall{
	"dense/short batch/marks":                                            {0, 5.7},
	"dense/three times the micro-batches/marks":                          {0, 1.8},
	"dense/longer sequences/marks":                                       {0, 7.9},
	"dense/sequences vary/marks":                                         {0, 13.5},
	"dense/evaluation, longer/marks":                                     {0, 32.2},
	"dense/save/marks":                                                   {0, 1.3},
	"dense/resumed/marks":                                                {-1, 30.6},
	"dense/extra at the start/marks":                                     {-1, 0.0},
	"dense/two models/marks":                                             {-1, 14.2},
	"moe/shorter sequences/marks":                                        {0, 22.8},
	"dense/extra=20/iter/marks":                                          {0, 7.9},
	"dense/missing=20/iter/marks":                                        {0, 14.5},
	"dense/swap=1/iter/marks":                                            {0, 4.1},
	"dense/swap=20/iter/marks":                                           {0, 13.1},
	"dense/resize=20/iter/marks":                                         {0, 3.9},
	"dense/late=5/iter,extra=5/iter,missing=5/iter,swap=5/iter/marks":    {0, 5.1},
	"moe/late=5/iter,extra=5/iter,missing=5/iter,swap=5/iter/marks":      {0, 7.3},
	"dense/short batch/no marks":                                         {0, 5.7},
	"dense/three times the micro-batches/no marks":                       {0, 2.5},
	"dense/ramp-up/no marks":                                             {-1, 8.5},
	"dense/longer sequences/no marks":                                    {0, 7.9},
	"dense/sequences vary/no marks":                                      {0, 13.5},
	"dense/evaluation, longer/no marks":                                  {0, 32.2},
	"dense/save/no marks":                                                {0, 1.3},
	"dense/resumed/no marks":                                             {-1, 30.6},
	"dense/extra at the start/no marks":                                  {-1, 0.0},
	"dense/two models/no marks":                                          {-1, 14.2},
	"recompute/three times the micro-batches/no marks":                   {0, 20.5},
	"moe/shorter sequences/no marks":                                     {0, 22.8},
	"dense/extra=20/iter/no marks":                                       {0, 7.9},
	"dense/missing=20/iter/no marks":                                     {0, 14.5},
	"dense/swap=1/iter/no marks":                                         {0, 4.1},
	"dense/swap=20/iter/no marks":                                        {0, 13.1},
	"dense/resize=20/iter/no marks":                                      {0, 3.9},
	"dense/late=5/iter,extra=5/iter,missing=5/iter,swap=5/iter/no marks": {0, 5.1},
	"moe/late=5/iter,extra=5/iter,missing=5/iter,swap=5/iter/no marks":   {0, 7.3},
}
